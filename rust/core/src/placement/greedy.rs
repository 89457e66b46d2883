//! A first split in linear time: along an order, every device takes as much as its load allows.

use crate::placement::growth::Growth;
use crate::placement::linear::Found;
use crate::placement::problem::{Placed, Problem};
use crate::progress::Stop;

/// Steps between two looks at the observer.
const STEPS_A_TICK: usize = 1 << 14;

/// Fills devices one after the other with intervals of `order` that have a value below `ceiling`; of the kinds left, the
/// one that gets furthest. `None` when the devices do not suffice, which says nothing about other ways to fill them.
///
/// Time `O(n K d)` for `K` kinds of devices and units with `d` nets, as long as intervals that are too long are soon seen
/// to be hopeless.
pub(crate) fn fill(
    problem: &Problem,
    order: &[u32],
    ceiling: f64,
    tick: &mut dyn FnMut() -> Result<(), Stop>,
) -> Result<Option<Found>, Stop> {
    let mut left: Vec<u32> = problem.kinds.iter().map(|kind| kind.count).collect();
    let mut growth = Growth::new(problem);
    let mut marks = Vec::new();
    let mut parts: Vec<Placed> = Vec::new();
    let mut most = [0.0_f64; 2];
    let (mut start, mut steps) = (0, 0);
    while start < order.len() {
        let mut furthest = None;
        for end in start + 1..=order.len() {
            steps += 1;
            if steps % STEPS_A_TICK == 0 {
                tick()?;
            }
            marks.push(growth.mark);
            growth.join(order[end - 1]);
            let mut hopeless = true;
            for kind in (0..left.len()).filter(|&kind| left[kind] > 0) {
                hopeless &= problem.least(growth.row(), growth.mark.kept, kind) >= ceiling;
                if let Some(load) = problem.load(growth.row(), &growth.mark.moved, kind, 1) {
                    let both = [most[0].max(load[0]), most[1].max(load[1])];
                    if both[0] + both[1] < ceiling {
                        furthest = Some((end, kind, both));
                    }
                }
            }
            if hopeless {
                break;
            }
        }
        while let Some(mark) = marks.pop() {
            growth.leave(order[start + marks.len()], mark);
        }
        let Some((end, kind, both)) = furthest else { return Ok(None) };
        for &unit in &order[start..end] {
            growth.exclude(unit);
        }
        parts.push(Placed { units: order[start..end].to_vec(), kind, replicas: 1 });
        left[kind] -= 1;
        most = both;
        start = end;
    }
    Ok(Some(Found { parts, value: most[0] + most[1] }))
}
