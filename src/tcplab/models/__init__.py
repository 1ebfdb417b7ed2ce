"""Pure functions and executable models of TCP theory, with their sources.

A value out of range or an unknown name raises ValueError, and so does an event that is earlier than
the previous event of the same model. The message names the value and what is allowed, in one line.
"""

from tcplab.models.buffers import receive_buffer_grant as receive_buffer_grant
from tcplab.models.buffers import receive_window as receive_window
from tcplab.models.buffers import send_buffer_grant as send_buffer_grant
from tcplab.models.buffers import window_from_buffer as window_from_buffer
from tcplab.models.conversation import Call as Call
from tcplab.models.conversation import NetworkPath as NetworkPath
from tcplab.models.conversation import Peer as Peer
from tcplab.models.conversation import simulate as simulate
from tcplab.models.copies import chain_cost as chain_cost
from tcplab.models.links import Encapsulation as Encapsulation
from tcplab.models.links import announced_mss_bytes as announced_mss_bytes
from tcplab.models.links import bdp_bytes as bdp_bytes
from tcplab.models.links import goodput_mbyte_s as goodput_mbyte_s
from tcplab.models.links import header_share as header_share
from tcplab.models.links import jain_index as jain_index
from tcplab.models.links import mathis_mbit as mathis_mbit
from tcplab.models.links import mss_bytes as mss_bytes
from tcplab.models.links import packet_count as packet_count
from tcplab.models.links import sawtooth_share as sawtooth_share
from tcplab.models.links import serialisation_ms as serialisation_ms
from tcplab.models.links import slow_start_flights as slow_start_flights
from tcplab.models.links import throughput_mbit as throughput_mbit
from tcplab.models.links import transfer_ms as transfer_ms
from tcplab.models.links import window_limit_mbit as window_limit_mbit
from tcplab.models.messages import message_calls as message_calls
from tcplab.models.messages import message_cost as message_cost
from tcplab.models.messages import segment_sizes as segment_sizes
from tcplab.models.reasons import Reason as Reason
