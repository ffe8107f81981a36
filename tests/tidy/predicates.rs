//! Questions change nothing: what is named like one takes no `&mut self`.

use crate::Canary;
use crate::source::{Offence, Tree};

const PREFIXES: [&str; 5] = ["is_", "has_", "can_", "must_", "needs_"];

/// Functions that are named like a question and take `&mut self`.
pub(crate) fn act(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in tree.rust().filter(|file| !file.is_test()) {
        for (index, token) in file.tokens.iter().enumerate() {
            let name = file.tokens.get(index + 1).and_then(|next| next.ident()).unwrap_or_default();
            let is_question = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            if token.ident() != Some("fn") || !is_question {
                continue;
            }
            let mut words = file.tokens[index + 2..].iter().take_while(|token| !token.is_close());
            let is_mutable = words.any(|token| token.ident() == Some("mut"));
            if is_mutable {
                let what = format!("`{name}` asks, but may change: a command has another name");
                offences.push(file.offence(token.line, what));
            }
        }
    }
    offences
}

pub(crate) fn act_canary() -> Canary {
    let text = "fn is_a(&self) {}\nfn is_b(&mut self) {}\nfn has_c(of: &mut C) {}\nfn d(&mut self) \
                {}\nfn can_e(&self) { let mut e = 1; }";
    Canary { files: vec![("a.rs", text.into())], caught_at: vec!["a.rs:2", "a.rs:3"] }
}
