//! Finds the rows for which something fails that is done for many at once.

/// All rows for which it fails, ascending, each with the reason; in time that grows with their number. `does` does it
/// for so many rows from one on.
pub fn bad_rows(
    rows: usize,
    does: &dyn Fn(usize, usize) -> Result<(), String>,
) -> Vec<(usize, String)> {
    let mut bad = Vec::new();
    let mut left = vec![(0, rows)];
    while let Some((start, length)) = left.pop() {
        if length == 0 {
            continue;
        }
        match (does(start, length), length) {
            (Ok(()), _) => {}
            (Err(why), 1) => bad.push((start, why)),
            (Err(_), _) => {
                let half = length / 2;
                left.push((start + half, length - half));
                left.push((start, half));
            }
        }
    }
    bad
}
