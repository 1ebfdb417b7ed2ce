"""The panels; each module defines one as PANEL."""
