//! Cases 57 and 58: no network.

use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};

use crate::home::Home;
use crate::modes::in_both_modes;

in_both_modes!(
    case_57_no_tcp_udp_or_ipv6,
    case_58_no_unix_socket_in_any_form,
    case_58_no_other_family,
    connected_pairs_are_allowed_because_they_are_pipes,
);

async fn case_57_no_tcp_udp_or_ipv6() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    tcp.set_nonblocking(true).unwrap();
    let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    let home = Home::new();
    let said = home
        .says(&format!(
            "for to in tcp/127.0.0.1/{tcp_port} udp/127.0.0.1/{udp_port} tcp/1.1.1.1/53 udp/1.1.1.1/53 tcp/::1/{tcp_port} tcp/2606:4700:4700::1111/53; do \
             (echo hello > /dev/$to) 2>/dev/null && echo reached $to; done; \
             perl -MSocket -e 'socket($s, AF_INET, SOCK_RAW, 1) and print qq(raw\\n)'; \
             perl -e '$_ = gethostbyname(q(example.com)) and print qq(resolved\\n)'; tail -n +3 /proc/net/dev | cut -d: -f1"
        ))
        .await;
    // The system accepts a datagram to its own loopback, but nobody receives it.
    let reached: Vec<&str> =
        said.lines().filter(|line| !line.contains(&format!("udp/127.0.0.1/{udp_port}"))).collect();
    assert_eq!(reached, ["    lo"], "{said}");
    assert!(tcp.accept().is_err() && udp.recv(&mut [0; 8]).is_err());
}

async fn case_58_no_unix_socket_in_any_form() {
    let home = Home::new();
    // Within reach: a listener and a datagram socket in the workspace, and one without a path.
    let (stream, datagram) = (home.path().join("work/stream"), home.path().join("work/datagram"));
    let listener = UnixListener::bind(&stream).unwrap();
    listener.set_nonblocking(true).unwrap();
    let receiver = UnixDatagram::bind(&datagram).unwrap();
    receiver.set_nonblocking(true).unwrap();
    for at in [&stream, &datagram] {
        std::fs::set_permissions(at, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    }
    let said = home
        .says(
            r#"perl -MSocket -e '
                for my $type (SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_RAW) {
                    print "socket $type\n" if socket(my $s, AF_UNIX, $type, 0);
                    print "high bits $type\n" if syscall(41, (1 << 32) + 1, $type, 0) >= 0;
                }
                for my $type (SOCK_DGRAM, SOCK_RAW, SOCK_DGRAM | 02000000, SOCK_DGRAM | 04000) {
                    if (socketpair(my $a, my $b, AF_UNIX, $type, 0)) {
                        print "pair $type\n";
                        print "sent\n" if send($a, "x", 0, pack_sockaddr_un("/work/work/datagram"));
                    }
                }
                socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) or print "no pair\n";
                print "reconnected\n" if connect($a, pack_sockaddr_un("/work/work/stream"));
                send($a, "x", 0, pack_sockaddr_un("/work/work/datagram"));
                print "done\n"'"#,
        )
        .await;
    assert_eq!(said, "done\n");
    assert!(listener.accept().is_err() && receiver.recv(&mut [0; 8]).is_err());
}

async fn case_58_no_other_family() {
    let home = Home::new();
    // netlink, packet, vsock, bluetooth, alg, xdp, tipc, kcm, can, rds.
    let said = home
        .says("perl -e 'for my $f (16, 17, 40, 31, 38, 44, 30, 41, 29, 21) { for my $t (1, 2, 3, 5) { print qq($f $t\\n) if socket(my $s, $f, $t, 0) } } print qq(done\\n)'")
        .await;
    assert_eq!(said, "done\n");
}

async fn connected_pairs_are_allowed_because_they_are_pipes() {
    let home = Home::new();
    let line = "perl -MSocket -e 'socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) or die; syswrite $a, q(hi); sysread $b, $_, 2; print'";
    assert_eq!(home.says(line).await, "hi");
}
