//! Standings of a sample as one self-contained HTML file: the tables of the text, and the ratios of
//! the first subject in all pairings, the least first.

use super::standings::Standings;
use super::text::{Detail, parts};
use crate::report::page::{Page, table};
use maud::{Markup, html};

const STYLE: &str = include_str!("page.css");

/// Size of the picture of all ratios, in pixels.
const PICTURE: [f64; 2] = [900.0, 160.0];
/// Greatest ratio in the picture; greater ones are cut off.
const RATIO_MAX: f64 = 1.5;

/// The page of a random league.
pub fn render(standings: &Standings) -> String {
    let title = "Random league of read policies";
    let body = html! { main {
        h1 { (title) }
        p { "Arrays and jobs are drawn at random. A ratio is the score of a policy divided by that \
             of the best rival of the pairing. " code { (standings.command) } }
        (ratios(standings))
        @for part in parts(standings, Detail::All) {
            h2 { (part.heading) }
            ul { @for remark in &part.remarks { li { (remark) } } }
            (table(&part.grid))
        }
    } };
    Page { title, style: STYLE, head: html! {}, body }.render()
}

/// One bar for each pairing, from a ratio of one up or down.
fn ratios(standings: &Standings) -> Markup {
    let subject = &standings.subjects[0];
    let pairings = standings.worst_first();
    let [width, height] = PICTURE;
    let step = width / pairings.len() as f64;
    let y = |ratio: f64| height * (1.0 - ratio.min(RATIO_MAX) / RATIO_MAX);
    html! {
        h2 { "Ratio of " (subject) " in every pairing" }
        svg width="100%" viewBox=(format!("0 0 {width} {height}")) role="img"
            aria-label={ "ratios of " (subject) ", the least first" }
        {
            @for (place, pairing) in pairings.iter().enumerate() {
                @let ratio = pairing.entry(subject).ratio;
                rect x=(format!("{:.2}", place as f64 * step))
                    y=(format!("{:.1}", y(ratio.max(1.0))))
                    width=(format!("{:.2}", 0.9 * step))
                    height=(format!("{:.1}", (y(ratio) - y(1.0)).abs().max(1.0)))
                    fill=(if ratio < 1.0 { "var(--worse)" } else { "var(--accent)" })
                {
                    title { "pairing " (pairing.number) ": " (format!("{ratio:.3}"))
                            " of " (pairing.best) }
                }
            }
        }
    }
}
