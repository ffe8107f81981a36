//! The names that a page calls, and the two buffers in memory that it shares with the module.

#![allow(
    unsafe_code,
    reason = "a name that is not mangled is an unsafe attribute; no pointer is read"
)]

use crate::Session;
use std::cell::RefCell;

thread_local! {
    static REQUEST: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static REPLY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static SESSION: RefCell<Session> = RefCell::default();
}

/// Makes room for a request of `length` bytes, and returns its address.
#[unsafe(no_mangle)]
pub extern "C" fn request(length: usize) -> *mut u8 {
    REQUEST.with_borrow_mut(|request| {
        request.clear();
        request.resize(length, 0);
        request.as_mut_ptr()
    })
}

/// Answers the request, and returns the number of bytes of the reply.
#[unsafe(no_mangle)]
pub extern "C" fn call() -> usize {
    let request = REQUEST.take();
    let text = String::from_utf8_lossy(&request);
    put_reply(SESSION.with_borrow_mut(|session| session.reply(&text)))
}

#[unsafe(no_mangle)]
pub extern "C" fn reply() -> *const u8 {
    REPLY.with_borrow(|reply| reply.as_ptr())
}

/// Lets the reply say what went wrong when the module stops at a bug. To be called first.
#[unsafe(no_mangle)]
pub extern "C" fn start() {
    std::panic::set_hook(Box::new(|panic| {
        put_reply(panic.to_string());
    }));
}

fn put_reply(text: String) -> usize {
    REPLY.with_borrow_mut(|reply| {
        *reply = text.into_bytes();
        reply.len()
    })
}
