use super::*;
use crate::graph::NodeId;
use crate::placement::{AcceleratorClass, Node};
use crate::progress::Unobserved;

fn workload(times: &[f64], edges: &[(u32, u32)], memory: f64, cpus: u32) -> Workload {
    let node = |&time: &f64| Node {
        cpu: 3.0 * time,
        accelerators: vec![Some(time)],
        size: 1.0,
        transfer: 0.25,
        ..Node::default()
    };
    let class = AcceleratorClass { name: "accelerator".to_owned(), count: 2, memory };
    Workload::new(times.iter().map(node).collect(), edges, vec![class], cpus).unwrap()
}

fn rules() -> Rules {
    Rules { max_replicas: 1, ..Rules::default() }
}

#[test]
fn local_search_agrees_with_the_judge_and_with_itself() {
    let ring: Vec<(u32, u32)> = (0..11).map(|v| (v, v + 1)).chain([(0, 5), (2, 9), (3, 7)]).collect();
    let ring = workload(&[5.0, 1.0, 4.0, 2.0, 8.0, 6.0, 1.0, 1.0, 7.0, 3.0, 2.0, 2.0], &ring, 7.0, 1);
    let search = LocalSearch { restarts: 5, seed: 7 };
    let (split, stopped) = local_search(&ring, &rules(), &search, &mut Unobserved);
    let split = split.unwrap();
    assert_eq!(stopped, None);
    let verdict = score(&ring, &rules(), &split);
    assert!(verdict.feasible(), "{:?}", verdict.violations);
    assert!(verdict.value < 24.0, "{}", verdict.value);
    assert_eq!(local_search(&ring, &rules(), &search, &mut Unobserved).0, Some(split));
}

#[test]
fn moves_keep_the_loads_exact() {
    let graph = workload(&[1.0, 2.0, 4.0, 8.0], &[(0, 1), (0, 2), (1, 3), (2, 3)], 10.0, 1);
    let rules = rules();
    let classes = vec![Some(0), Some(0), None];
    let mut random = random::Random(1);
    let mut loads = loads::Loads::new(&graph, &rules, classes.clone(), vec![0; 4]);
    for _ in 0..200 {
        loads.assign(NodeId(random.below(4) as u32), random.below(3));
        let devices = (0..4).map(|v| loads.device(NodeId(v))).collect();
        let fresh = loads::Loads::new(&graph, &rules, classes.clone(), devices).quality();
        let moved = loads.quality();
        assert!((moved.value - fresh.value).abs() < 1e-12 && (moved.spread - fresh.spread).abs() < 1e-9);
    }
}

#[test]
fn blocks_are_contracted_between_the_points_where_they_meet() {
    // A diamond 0..3, a bridge 3 - 4, a triangle 4..6 with the edge 4 -> 6.
    let edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (4, 5), (5, 6), (4, 6)];
    let contracted = contract_blocks(&workload(&[1.0; 7], &edges, 9.0, 0)).unwrap();
    let color = |v: usize| contracted.nodes()[v].color.unwrap();
    assert_eq!([color(0), color(1)], [color(2), color(2)]);
    assert_eq!(color(5), color(6));
    let mut apart = [color(0), color(3), color(4), color(5)];
    apart.sort_unstable();
    assert!(apart.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn one_accelerator_takes_everything() {
    let pair = workload(&[1.0, 2.0], &[(0, 1)], 1.0, 1);
    let split = single(&pair, &rules()).unwrap();
    assert_eq!(score(&pair, &rules(), &split).value, 3.0);
}
