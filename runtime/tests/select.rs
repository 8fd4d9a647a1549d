//! Waiting for the first of several things, in a written order.

use std::future::{pending, poll_fn, ready};

use tokio::sync::{mpsc, oneshot};

#[tokio::test]
async fn of_several_that_are_ready_the_one_written_first_is_taken() {
    let first = moored::select! {
        () = pending() => "stop",
        word = ready("exit") => word,
        word = ready("timer") => word,
    };
    assert_eq!(first, "exit");
}

#[tokio::test]
async fn a_branch_is_part_of_the_function_around_it() {
    async fn first_even(
        mut numbers: mpsc::Receiver<u32>,
        stop: oneshot::Receiver<()>,
    ) -> Option<u32> {
        let mut stop = stop;
        loop {
            moored::select! {
                _ = &mut stop => return None,
                number = numbers.recv() => match number? {
                    even if even % 2 == 0 => break Some(even),
                    _ => continue,
                },
            }
        }
    }
    let (tell, numbers) = mpsc::channel(4);
    let (_running, stop) = oneshot::channel();
    for number in [1, 3, 4, 6] {
        tell.try_send(number).expect("there is room");
    }
    assert_eq!(first_even(numbers, stop).await, Some(4));
    let (stop, stopped) = oneshot::channel();
    drop(stop);
    assert_eq!(first_even(mpsc::channel(1).1, stopped).await, None, "the stop is written first");
}

#[tokio::test]
async fn what_was_not_taken_is_dropped_before_the_branch_runs() {
    let (held, dropped) = oneshot::channel::<()>();
    let waits = async move {
        let _held = held;
        pending::<()>().await;
    };
    moored::select! {
        () = ready(()) => assert!(dropped.await.is_err(), "nobody holds the other end"),
        () = waits => unreachable!("it waits for ever"),
    }
}

#[tokio::test]
async fn a_branch_whose_condition_does_not_hold_is_not_asked() {
    for is_open in [false, true] {
        let first = moored::select! {
            () = poll_fn(|_| panic!("asked all the same")), if false => "never",
            word = ready("open"), if is_open => word,
            word = ready("closed") => word,
        };
        assert_eq!(first, if is_open { "open" } else { "closed" });
    }
}
