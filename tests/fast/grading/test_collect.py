"""An archive's name gives its sender's login."""

import pytest

from tcplab.errors import ParameterError
from tcplab.grading.collect import Submitter, sender_of


@pytest.mark.parametrize(
    ("name", "sender"),
    [
        ("ada.zip", Submitter("ada")),
        ("ada (1).zip", Submitter("ada")),
        ("ADA.ZIP", Submitter("ADA")),
        ("a_b.c@example.org.zip", Submitter("a_b.c@example.org")),
        ("lovelaceada_1815_9001_ada.zip", Submitter("ada", "lovelaceada", "1815")),
        (
            "lovelaceada_LATE_1815_9001_ada_l.zip",
            Submitter("ada_l", "lovelaceada", "1815", is_late=True),
        ),
        ("lovelaceada_1815_9001_ada-1.zip", Submitter("ada-1", "lovelaceada", "1815")),
        ("hopper_7_8_bob-2.zip", Submitter("bob", "hopper", "7")),
        ("Ada L_12_assignsubmission_file_/ada.zip", Submitter("ada", "Ada L", "12")),
        ("Ada L_12_assignsubmission_file_ada.zip", Submitter("ada", "Ada L", "12")),
        ("mallory_123_bob.zip", Submitter("mallory_123_bob")),
        ("bob/ada.zip", Submitter("ada")),
    ],
)
def test_login_comes_from_the_archive_name(name: str, sender: Submitter) -> None:
    assert sender_of(name, known=["bob", "ada", "ada-1"]) == sender


@pytest.mark.parametrize(
    "name", ["*.zip", "a\nb.zip", " .zip", ".zip", "ada.rar", "ada", "[a-z].zip"]
)
def test_archive_name_without_a_login_is_refused(name: str) -> None:
    with pytest.raises(ParameterError):
        sender_of(name)
