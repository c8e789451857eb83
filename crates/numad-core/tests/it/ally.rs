//! Beside the kernel's own balancing: what is left to it, and what is not.

use std::sync::{Arc, Mutex};

use numad_core::{AttachOptions, AttachmentId, Veto};
use topology::NodeId;

use crate::world::{Script, Seen, World, options};

/// Two threads on each of two nodes, 10 and 11 on node 0, under a policy that seeks a gain; the kernel balances.
fn world() -> (World, AttachmentId, Arc<Mutex<Script>>) {
    let mut world = World::new("2x2@10,20");
    world.kernel_balances = true;
    let options = AttachOptions {
        require_gain: true,
        ..options()
    };
    let (id, script) = world.attach(10, &[0, 1, 2, 3], options);
    (world, id, script)
}

/// A window in which each of these threads used each of these pages.
fn window(world: &mut World, uses: &[(&[u32], &[u64])]) -> Seen {
    for &(tids, pages) in uses {
        for page in pages {
            tids.iter().for_each(|&tid| world.touch(tid, *page, 20));
        }
    }
    world.window()
}

const OWN: [u64; 3] = [1, 2, 3];

#[test]
fn what_one_thread_alone_uses_is_left_to_the_kernel() {
    let (mut world, id, script) = world();
    script.lock().unwrap().threads = vec![(12, 1), (13, 1)];
    script.lock().unwrap().pages = OWN.map(|page| (page, 1)).to_vec();
    let seen = window(&mut world, &[(&[12], &OWN)]);
    assert_eq!(seen.orders(), "13>1", "of thread 13 nothing is known");
    // That it stays is not told.
    assert_eq!(seen.vetoes(), [("3 pages".to_owned(), Veto::Kernel)]);
    assert_eq!(world.engine.totals(id).unwrap().vetoes[&Veto::Kernel], 4);
    // The thread is kept there from the second window on, and its memory comes home bit by bit.
    let orders = OWN.map(|page| {
        world.homes.insert(page, NodeId(1));
        window(&mut world, &[(&[12], &OWN)]).orders()
    });
    assert_eq!(orders, ["12>1", "", ""]);
    // Switched off, its pages are ours.
    world.kernel_balances = false;
    world.homes.clear();
    assert_eq!(window(&mut world, &[(&[12], &OWN)]).orders(), "p1+2+3>1");
}

#[test]
fn what_threads_share_is_not() {
    let (mut world, _, script) = world();
    script.lock().unwrap().threads = vec![(12, 1), (13, 1)];
    script.lock().unwrap().pages = vec![(1, 1), (9, 1)];
    let seen = window(&mut world, &[(&[12, 13], &[1, 2]), (&[12], &[9])]);
    assert_eq!(seen.orders(), "12>1 13>1 p1>1");
    assert_eq!(seen.vetoes(), [("1 pages".to_owned(), Veto::Kernel)]);
}

#[test]
fn pages_that_are_to_be_elsewhere_than_their_thread_are_not() {
    let (mut world, _, script) = world();
    // The page is at home, and the policy wants it away: it need not be left to the kernel to be refused.
    script.lock().unwrap().pages = vec![(1, 0)];
    world.homes.insert(1, NodeId(1));
    let seen = window(&mut world, &[(&[12], &OWN)]);
    assert_eq!(seen.vetoes(), [("1 pages".to_owned(), Veto::DoesNotPay)]);
}

#[test]
fn what_the_kernel_does_not_bring_home_is_not() {
    let (mut world, _, script) = world();
    script.lock().unwrap().threads = vec![(12, 1)];
    script.lock().unwrap().pages = OWN.map(|page| (page, 1)).to_vec();
    let orders = (0..2).map(|_| window(&mut world, &[(&[12], &OWN)]).orders());
    assert_eq!(orders.collect::<Vec<_>>(), ["", "12>1 p1+2+3>1"]);
}

#[test]
fn what_the_kernel_moved_stays_until_a_thread_moves() {
    let (mut world, id, script) = world();
    let shared: [u64; 2] = [1, 2];
    script.lock().unwrap().threads = vec![(12, 1), (13, 1)];
    script.lock().unwrap().pages = vec![(1, 1)];
    let uses: [(&[u32], &[u64]); 1] = [(&[12, 13], &shared)];
    assert_eq!(window(&mut world, &uses).orders(), "12>1 13>1 p1>1");
    world.homes.insert(1, NodeId(0));
    for _ in 0..10 {
        let seen = window(&mut world, &uses);
        assert_eq!(seen.orders(), "");
        assert_eq!(seen.vetoes(), [("1 pages".to_owned(), Veto::Kernel)]);
    }
    assert_eq!(world.engine.totals(id).unwrap().pages_elsewhere, 1);
    // Found elsewhere while the kernel does not balance, it was somebody else, or the page is a new one.
    world.kernel_balances = false;
    assert_eq!(window(&mut world, &uses).orders(), "p1>1");
}
