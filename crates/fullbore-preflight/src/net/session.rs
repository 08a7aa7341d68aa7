//! One who measures, as the listener serves it: one measurement after the other.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::control::Control;
use super::kernel::this_side;
use super::message::{FromClient, FromListener, Measurement, Received};
use super::receive;
use super::shared::{Event, Shared};
use crate::error::{Error, Result};

/// Until it says goodbye, does something wrong, or the listener's time is over.
pub(super) fn serve(shared: &Shared, mut control: Control, peer: SocketAddr) {
    shared.tell(Event::Began { peer });
    let mut bytes = 0;
    let result = talk(shared, &mut control, &mut bytes);
    shared.expect_nothing();
    shared.free();
    let trouble = result.err().map(|error| error.to_string());
    shared.tell(Event::Ended { peer, bytes, trouble });
}

fn talk(shared: &Shared, control: &mut Control, bytes: &mut u64) -> Result<()> {
    let session = shared.number();
    let FromClient::Hello { .. } = control.receive(Duration::ZERO)? else {
        return Err(control.out_of_turn());
    };
    let side = this_side(control.stream());
    control.send(&FromListener::Hello { session, side })?;
    loop {
        match control.receive(Duration::ZERO)? {
            FromClient::Prepare { measurement } => {
                if let Some(message) = refusal(shared, &measurement) {
                    return control.send(&FromListener::Refused { message });
                }
                let received = measure(shared, control, session, &measurement)?;
                let came: u64 = received.streams.iter().map(|stream| stream.bytes).sum();
                *bytes += came;
                shared.bytes_left.fetch_sub(
                    came.min(shared.bytes_left.load(Ordering::Relaxed)),
                    Ordering::Relaxed,
                );
                control.send(&FromListener::Done { received })?;
            }
            FromClient::Bye => return Ok(()),
            FromClient::Hello { .. } | FromClient::Go => return Err(control.out_of_turn()),
        }
    }
}

/// Why a measurement is not made: it would go beyond what this listener is for.
fn refusal(shared: &Shared, measurement: &Measurement) -> Option<String> {
    let left = shared.ends.saturating_duration_since(Instant::now());
    if left.as_secs_f64() < measurement.seconds {
        return Some(format!(
            "the listener ends in {:.0} s: start it with a larger --for",
            left.as_secs_f64()
        ));
    }
    let bytes_left = shared.bytes_left.load(Ordering::Relaxed);
    (bytes_left < measurement.bytes_max).then(|| {
        format!(
            "the listener takes {bytes_left} bytes more, and this may be {}: start it with a larger \
             --max-bytes, or measure with a smaller one",
            measurement.bytes_max
        )
    })
}

fn measure(
    shared: &Shared,
    control: &mut Control,
    session: u64,
    measurement: &Measurement,
) -> Result<Received> {
    let system = |source| Error::System { what: "receive", source };
    let coming = shared.expect(session, measurement).map_err(system)?;
    control.send(&FromListener::Ready)?;
    // The other side says so when all its streams were welcomed, so all of them are here then.
    let said = control.receive::<FromClient>(Duration::ZERO);
    shared.expect_nothing();
    if said? != FromClient::Go {
        return Err(control.out_of_turn());
    }
    let streams = coming
        .try_iter()
        .map(|stream| receive::begin(stream, measurement.window_bytes))
        .collect::<std::io::Result<Vec<_>>>()
        .map_err(system)?;
    Ok(receive::watch(streams, measurement))
}
