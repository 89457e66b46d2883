//! Restrictions on how many stages there are and which layer is in which: an automaton that reads the stages backward.
//!
//! Without such restrictions it has one state. Stages are added from the last to the first, so a stage that is counted
//! from the input is known only once it is certain how many precede it: the automaton guesses when the pinned stages
//! begin.

use std::collections::BTreeMap;

use crate::downsets::NodeSet;
use crate::graph::NodeId;
use crate::pipeline::Limits;

/// What pins allow the layers of a stage to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// No layer is pinned.
    Free,
    /// All layers that are pinned to this stage, and no other pinned ones.
    Stage(u32),
}

/// One way to read a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// What the stage must be.
    pub(crate) tag: Tag,
}

/// The automaton; state 0 is the start.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    pub(crate) count: usize,
    pub(crate) steps: Vec<Step>,
    pub(crate) accepting: Vec<usize>,
    pinned: BTreeMap<u32, Vec<NodeId>>,
}

impl Levels {
    /// Time and space linear in the limits and the largest number of stages (at most one a layer).
    pub(crate) fn new(limits: &Limits, layers: usize) -> Self {
        let mut pinned: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
        for &(node, stage) in &limits.pins {
            pinned.entry(stage).or_default().push(node);
        }
        let head = pinned.last_key_value().map_or(0, |(&last, _)| last as usize + 1);
        let bound = limits.stages.into_iter().chain(limits.max_stages).min().map(|n| n as usize);
        let bound = bound.filter(|&n| limits.stages.is_some() || n < layers);
        // States 0..=free count stages behind the pinned ones; one state is enough when nothing limits them.
        let free = bound.map(|n| n.saturating_sub(head).min(layers + 1));
        let mut levels = Self { count: free.unwrap_or(0) + 1, steps: Vec::new(), accepting: Vec::new(), pinned };
        match free {
            None => levels.steps.push(Step { from: 0, to: 0, tag: Tag::Free }),
            Some(most) => {
                levels.steps.extend((0..most).map(|i| Step { from: i, to: i + 1, tag: Tag::Free }));
            }
        }
        let too_few = limits.max_stages.is_some_and(|most| limits.stages.is_some_and(|n| n > most));
        if too_few || bound.is_some_and(|n| n < head) {
            return levels;
        }
        let ends: Vec<usize> = match (limits.stages, free) {
            (Some(_), Some(most)) => vec![most],
            _ => (0..levels.count).collect(),
        };
        levels.add_pinned(head, ends);
        levels
    }

    /// Appends the first `head` stages, last of them first, behind the states in `ends`.
    fn add_pinned(&mut self, head: usize, mut ends: Vec<usize>) {
        for stage in (0..head as u32).rev() {
            let tag = if self.pinned.contains_key(&stage) { Tag::Stage(stage) } else { Tag::Free };
            let to = self.count;
            self.count += 1;
            self.steps.extend(ends.iter().map(|&from| Step { from, to, tag }));
            ends = vec![to];
        }
        self.accepting = ends;
    }

    /// What the stage between two downsets can be; `None` when pins forbid it altogether.
    pub(crate) fn tag(&self, lower: NodeSet<'_>, upper: NodeSet<'_>) -> Option<Tag> {
        let inside = |v: &&NodeId| upper.contains(**v) && !lower.contains(**v);
        let mut tag = Tag::Free;
        for (&stage, nodes) in &self.pinned {
            match nodes.iter().filter(inside).count() {
                0 => {}
                n if n == nodes.len() && tag == Tag::Free => tag = Tag::Stage(stage),
                _ => return None,
            }
        }
        Some(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the automaton accepts stages with these tags, the input's first.
    fn accepts(levels: &Levels, tags: &[Tag]) -> bool {
        let mut states = vec![0];
        for &tag in tags.iter().rev() {
            let next = |s: &Step| states.contains(&s.from) && s.tag == tag;
            states = levels.steps.iter().filter(|s| next(s)).map(|s| s.to).collect();
        }
        states.iter().any(|s| levels.accepting.contains(s))
    }

    #[test]
    fn without_limits_any_number_of_stages_will_do() {
        let levels = Levels::new(&Limits::default(), 9);
        assert_eq!(levels.count, 1);
        assert!((1..9).all(|n| accepts(&levels, &vec![Tag::Free; n])));
    }

    #[test]
    fn numbers_of_stages_are_counted() {
        let exactly = Levels::new(&Limits { stages: Some(3), ..Limits::default() }, 9);
        let at_most = Levels::new(&Limits { max_stages: Some(3), ..Limits::default() }, 9);
        for n in 1..9 {
            assert_eq!(accepts(&exactly, &vec![Tag::Free; n]), n == 3);
            assert_eq!(accepts(&at_most, &vec![Tag::Free; n]), n <= 3);
        }
    }

    #[test]
    fn pins_count_from_the_input() {
        let limits = Limits { pins: vec![(NodeId(4), 1), (NodeId(5), 1)], ..Limits::default() };
        let levels = Levels::new(&limits, 9);
        assert!(accepts(&levels, &[Tag::Free, Tag::Stage(1)]));
        assert!(accepts(&levels, &[Tag::Free, Tag::Stage(1), Tag::Free, Tag::Free]));
        assert!(!accepts(&levels, &[Tag::Stage(1), Tag::Free]));
        assert!(!accepts(&levels, &[Tag::Free, Tag::Free, Tag::Stage(1)]));
        assert!(!accepts(&levels, &[Tag::Free]));
    }

    #[test]
    fn limits_that_contradict_accept_nothing() {
        for limits in [
            Limits { stages: Some(4), max_stages: Some(3), ..Limits::default() },
            Limits { max_stages: Some(1), pins: vec![(NodeId(0), 1)], ..Limits::default() },
        ] {
            assert!(Levels::new(&limits, 9).accepting.is_empty());
        }
    }
}
