//! Echo requests, as ping sends them.

use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

const REQUEST: u8 = 8;
const REPLY: u8 = 0;
const IDENTIFIER: u16 = 0xfb;

/// The time of each round trip; a lost one is as long as we waited.
pub fn ping(host: Ipv4Addr, count: u16) -> Vec<Duration> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).expect("root's");
    socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a time");
    let address = SocketAddr::from((host, 0)).into();
    (0..count)
        .map(|number| {
            let began = Instant::now();
            socket.send_to(&request(number), &address).expect("sent");
            let mut buffer = [MaybeUninit::uninit(); 256];
            while let Ok((length, _)) = socket.recv_from(&mut buffer) {
                let bytes: Vec<u8> = buffer[..length]
                    .iter()
                    // SAFETY: so many were written.
                    .map(|byte| unsafe { byte.assume_init() })
                    .collect();
                // Behind the header of IP, which has no options.
                if bytes.get(20) == Some(&REPLY) && bytes.get(26..28) == Some(&number.to_be_bytes())
                {
                    break;
                }
            }
            began.elapsed()
        })
        .collect()
}

fn request(number: u16) -> [u8; 8] {
    let mut message = [REQUEST, 0, 0, 0, 0, 0, 0, 0];
    message[4..6].copy_from_slice(&IDENTIFIER.to_be_bytes());
    message[6..].copy_from_slice(&number.to_be_bytes());
    let sum: u32 =
        message.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    message[2..4].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    message
}
