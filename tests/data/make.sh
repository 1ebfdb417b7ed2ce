#!/bin/bash
# Makes the foreign captures in this directory: real traffic of the Linux stack, recorded and
# converted by tcpdump, dumpcap and editcap, not by anything of ours. Run as root, by hand, when one is
# to be added; the files are kept in the repository, so that the tests need none of these programs.
#
#     sudo tests/data/make.sh
set -euo pipefail
cd "$(dirname "$0")"
scratch=$(mktemp -d)
a=tcplab-a-$$ b=tcplab-b-$$
trap 'ip netns del $a; ip netns del $b; rm -r "$scratch"' EXIT

ip netns add $a
ip netns add $b
ip link add eth0 netns $a type veth peer name eth0 netns $b
for each in "$a 1" "$b 2"; do
    read -r ns n <<<"$each"
    ip -n $ns link set lo up
    ip -n $ns addr add 192.0.2.$n/24 dev eth0
    ip -n $ns addr add 2001:db8::$n/64 dev eth0 nodad
    ip netns exec $ns ethtool -K eth0 tx off tso off gso off gro off >/dev/null
    ip -n $ns link set eth0 up
done
sleep 2.5

cat >"$scratch/talk.py" <<'PYTHON'
"""talk.py server|client ADDRESS SCENE..."""
import socket, struct, sys, time

role, address, *scenes = sys.argv[1:]
family = socket.AF_INET6 if ":" in address else socket.AF_INET

def connect(source_port=0):
    s = socket.socket(family)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("", source_port))
    s.connect((address, 7000))
    return s

def serve():
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if "stall" in scenes:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    listener.bind(("", 7000))
    listener.listen()
    while True:
        s, _ = listener.accept()
        if "stall" in scenes:
            time.sleep(0.7)
        try:
            while data := s.recv(65536):
                if "stall" not in scenes:
                    s.sendall(data[:200])
        except ConnectionResetError:
            pass
        s.close()

def client():
    for scene in scenes:
        if scene == "chat":
            with connect() as s:
                for size in (2, 30, 100, 1448):
                    s.sendall(b"x" * size)
                    s.recv(65536)
        elif scene == "bulk":
            with connect() as s:
                s.sendall(b"x" * 60000)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
        elif scene == "reset":
            s = connect()
            s.sendall(b"hello")
            s.recv(100)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        elif scene == "refused":
            s = socket.socket(family)
            try:
                s.connect((address, 7001))
            except ConnectionRefusedError:
                pass
        elif scene == "reuse":
            for _ in range(3):
                s = connect(40000)
                s.sendall(b"again")
                s.recv(100)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                s.close()
        elif scene == "stall":
            with connect() as s:
                s.sendall(b"x" * 30000)
                s.shutdown(socket.SHUT_WR)
                s.recv(1)
        elif scene == "datagrams":
            with socket.socket(family, socket.SOCK_DGRAM) as s:
                for size in (0, 1, 100, 1472, 4000):
                    s.sendto(b"x" * size, (address, 7002))

client() if role == "client" else serve()
PYTHON

# film FILE RECORDER... -- ADDRESS SCENE...
film() {
    local file=$1 recorder=()
    shift
    while [ "$1" != -- ]; do
        recorder+=("$1")
        shift
    done
    shift
    ip netns exec $b python3 "$scratch/talk.py" server "$@" &
    local server=$!
    ip netns exec $a "${recorder[@]}" -w "$scratch/$file" 2>"$scratch/log" &
    local recording=$!
    sleep 1
    ip netns exec $a python3 "$scratch/talk.py" client "$@"
    sleep 0.5
    kill -INT $recording
    wait $recording || true
    kill $server
    wait $server 2>/dev/null || true
    cp "$scratch/$file" "$file"
    chmod 644 "$file"
}

dump=(tcpdump --immediate-mode -U -Z root -s 128 -n)
film tcpdump.pcap "${dump[@]}" -i eth0 -- 192.0.2.2 chat bulk reset refused datagrams
film tcpdump-ns.pcap "${dump[@]}" -i eth0 --time-stamp-precision=nano -- 192.0.2.2 chat
film tcpdump-ipv6.pcap "${dump[@]}" -i eth0 -- 2001:db8::2 chat bulk reset refused datagrams
film tcpdump-sll2.pcap "${dump[@]}" -i any -y LINUX_SLL2 -- 192.0.2.2 chat reset datagrams
film tcpdump-sll.pcap "${dump[@]}" -i any -y LINUX_SLL -- 192.0.2.2 chat reset datagrams
film tcpdump-reuse.pcap "${dump[@]}" -i eth0 -- 192.0.2.2 reuse
film tcpdump-stall.pcap "${dump[@]}" -i eth0 -- 192.0.2.2 stall
film tcpdump-one-way.pcap "${dump[@]}" -i eth0 src 192.0.2.1 -- 192.0.2.2 chat
film dumpcap.pcapng dumpcap -q -i eth0 -s 128 -- 192.0.2.2 chat reset datagrams
film dumpcap-two.pcapng dumpcap -q -i lo -i eth0 -s 128 -- 192.0.2.2 chat

# Without window scaling, time stamps and SACK, as TCP was before RFC 1323.
for option in window_scaling timestamps sack; do
    ip netns exec $b sysctl -qw net.ipv4.tcp_$option=0
done
film tcpdump-plain.pcap "${dump[@]}" -i eth0 -- 192.0.2.2 chat bulk

# Offloads on: super-segments.
for ns in $a $b; do
    ip netns exec $ns ethtool -K eth0 tx on tso on gso on gro on >/dev/null
done
film tcpdump-gso.pcap "${dump[@]}" -i eth0 -- 192.0.2.2 bulk

# Raw IP, without the link header; and the middle of a connection, without its handshake.
editcap -F pcap -C 14 -L -T rawip tcpdump.pcap tcpdump-raw.pcap
editcap -F pcap -r tcpdump.pcap tcpdump-middle.pcap 30-60
editcap -F nsecpcap tcpdump.pcap editcap-ns.pcap
ls -l ./*.pcap*
