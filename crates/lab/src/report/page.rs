//! The frame of an HTML file that needs nothing else, as pages of the league and of recipes are.

use maud::{DOCTYPE, Markup, html};

/// A page with this title, which is its heading, too.
pub(crate) fn page(title: &str, style: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (title) }
                style { (style) }
            }
            body {
                h1 { (title) }
                (body)
            }
        }
    };
    page.into_string()
}
