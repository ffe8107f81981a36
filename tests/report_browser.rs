//! The page of a report in a real browser: headless Chromium, on a desk and on a phone.
//!
//! Where Chromium and its driver are not installed the test says so and passes, unless `CI` is
//! `true`; `./test` installs them.

pub(crate) mod driver;
use crate::common::external::skip_missing;
use crate::common::samples::{ARRAY, JOB};
use crate::common::{Folder, stdout};
use driver::Browser;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// More than are shown from the start.
const POLICIES: &str = "btrfs/pid,btrfs/inflight,gmirror/load,kakra/queue,kakra/latency-rr,\
                        md/raid1,zfs/mirror,mirrorball/first";
const KINDS: [&str; 8] =
    ["distribution", "iops", "throughput", "heat", "share", "queue", "offsets", "seeks"];

/// Whether the tip is seen.
const TIP_IS_SHOWN: &str = "return !document.querySelector('.tip').hidden;";

/// Whether the browser is there. In CI it has to be.
fn has_browser() -> bool {
    let is_installed = driver::is_installed();
    if !is_installed {
        skip_missing("chromium (with chromedriver)");
    }
    is_installed
}

fn results() -> (Folder, PathBuf) {
    let folder = Folder::new();
    fs::write(folder.path("pair.toml"), ARRAY).unwrap();
    fs::write(folder.path("job.fio"), JOB.replace("runtime=10", "runtime=2")).unwrap();
    let words = ["compare", "pair.toml", "job.fio", "-n", "2", "-o", "out", "--report"];
    stdout(&folder.run(&[&words[..], &["--policy", POLICIES]].concat()));
    let page = folder.path("out/report.html");
    (folder, page)
}

#[test]
fn on_a_desk() {
    if has_browser() {
        look_at_it(1280);
    }
}

#[test]
fn on_a_phone() {
    if has_browser() {
        look_at_it(390);
    }
}

fn look_at_it(width: u32) {
    let (_folder, page) = results();
    let browser = Browser::open(&page, width);
    let fits = "const page = document.documentElement;
        return page.scrollWidth <= page.clientWidth;";
    assert_eq!(browser.run(fits), true, "the page scrolls sideways");
    every_chart_has_marks(&browser);
    hovering_tells_the_figure(&browser, page.parent().unwrap());
    // The same code at any width.
    if width > 1000 {
        keys_move_and_magnify(&browser);
        hiding_hides_everywhere(&browser);
    }
    choosing_unpacks(&browser);
    every_chart_has_marks(&browser);
    let console = browser.console();
    assert!(console.is_empty(), "on the console: {console:?}");
}

/// Shapes with an extent, or more colours on a canvas than that of the lines between lanes.
fn every_chart_has_marks(browser: &Browser) {
    let script = "
        const has_marks = (chart) => {
          const canvas = chart.querySelector('canvas');
          if (canvas) {
            const { width, height } = canvas;
            const copy = Object.assign(document.createElement('canvas'), { width, height });
            const pen = copy.getContext('2d', { willReadFrequently: true });
            pen.drawImage(canvas, 0, 0);
            const pixels = new Uint32Array(pen.getImageData(0, 0, width, height).data.buffer);
            return new Set(pixels).size > 3;
          }
          return [...chart.querySelectorAll('svg path:not(.rule)')].some((path) => {
            const { width, height } = path.getBBox();
            const { stroke, fill } = getComputedStyle(path);
            return width + height > 0 && (stroke !== 'none' || fill !== 'none');
          });
        };
        const charts = [...document.querySelectorAll('.chart')].filter((c) => c.offsetParent);
        return charts.map((chart) => [chart.dataset.kind, has_marks(chart)]);";
    let charts = browser.run(script);
    let charts = charts.as_array().unwrap();
    for chart in charts {
        assert_eq!(chart[1], true, "no marks in a chart of {}", chart[0]);
    }
    for kind in KINDS {
        assert!(charts.iter().any(|chart| chart[0] == kind), "no chart of {kind} is seen");
    }
}

/// Over the chart of requests: what the saved cells say of that moment. Over the others: something.
fn hovering_tells_the_figure(browser: &Browser, results: &Path) {
    let tip = hover(browser, "iops", 0.3);
    let columns = 8.0;
    let column = (0.3f64 * columns) as usize;
    assert!(tip.starts_with("0.5 to 0.75 s"), "{tip}");
    let shown: Vec<(&str, &str)> =
        tip.lines().skip(1).filter_map(|line| line.trim().split_once('\t')).collect();
    assert_eq!(shown.len(), 4, "the best three and the baseline: {tip}");
    for (policy, figure) in shown {
        assert_eq!(figure, format!("{:.0} IOPS", saved_iops(results, policy, column)), "{policy}");
    }
    for kind in KINDS {
        let tip = hover(browser, kind, 0.6);
        assert!(tip.lines().count() > 1, "no tip is shown over {kind}: {tip}");
    }
}

/// Text of the tip with the pointer over the first chart of a kind, so far from its left edge.
fn hover(browser: &Browser, kind: &str, place: f64) -> String {
    let find = format!(
        "const plot = document.querySelector('.chart[data-kind=\"{kind}\"] .plot');
         plot.scrollIntoView({{ block: 'center', behavior: 'instant' }});
         const {{ left, top, width, height }} = plot.getBoundingClientRect();
         return [left, top, width, height];"
    );
    let found = browser.run(&find);
    browser.wait_for_frames();
    let [left, top, width, height] = [0, 1, 2, 3].map(|index| found[index].as_f64().unwrap());
    // Scrolling that has not come to rest hides the tip again.
    let is_shown = (0..20).any(|_| {
        // From elsewhere: a pointer that stays where it was does not move.
        browser.point_at(1.0, 1.0);
        browser.point_at(left + place * width, top + height / 2.0);
        browser.wait_for_frames();
        browser.run(TIP_IS_SHOWN) == true
    });
    assert!(is_shown, "no tip is shown over {kind}");
    browser.run("return document.querySelector('.tip').innerText;").as_str().unwrap().to_owned()
}

/// Reads per second in one interval, the mean of the repeats, from the saved cells.
fn saved_iops(results: &Path, policy: &str, column: usize) -> f64 {
    let cells = fs::read_dir(results.join("cells")).unwrap();
    let cells = cells.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let cells = cells.map(|text| serde_json::from_str::<Value>(&text).unwrap());
    let rates: Vec<f64> = cells
        .filter(|cell| cell["cell"]["policy"] == policy)
        .map(|cell| {
            let intervals = &cell["intervals"];
            let counts = intervals["read_latency"][column]["counts"].as_array().unwrap().clone();
            let count: f64 = counts.iter().map(|count| count.as_f64().unwrap()).sum();
            count * 1e6 / intervals["width_us"][column].as_f64().unwrap()
        })
        .collect();
    assert_eq!(rates.len(), 2, "a rate per repeat");
    rates.iter().sum::<f64>() / 2.0
}

/// Arrow keys tell figures, plus magnifies every chart over time of the job, 0 undoes it.
fn keys_move_and_magnify(browser: &Browser) {
    browser.run("document.querySelector('.chart[data-kind=\"iops\"]').focus();");
    // Scrolling to what got the focus hides the tip again.
    let is_shown = (0..20).any(|_| {
        browser.wait_for_frames();
        browser.press("\u{e014}");
        browser.run(TIP_IS_SHOWN) == true
    });
    assert!(is_shown, "an arrow key shows no tip");
    let magnified = "return [...document.querySelectorAll('.chart.zoomed')].length";
    browser.press("+");
    browser.wait_for(&format!("{magnified} > 3;"));
    browser.press("0");
    browser.wait_for(&format!("{magnified} === 0;"));
    browser.press("\u{e00c}");
    browser.wait_for("return document.querySelector('.tip').hidden;");
}

/// How many elements of a policy are seen, its boxes in the matrix apart.
fn seen(browser: &Browser, policy: &str) -> u64 {
    let script = format!(
        "return [...document.querySelectorAll('[data-policy=\"{policy}\"]')]
           .filter((element) => element.getClientRects().length).length;"
    );
    browser.run(&script).as_u64().unwrap()
}

fn hiding_hides_everywhere(browser: &Browser) {
    let first = "return document.querySelector('[data-choose]:checked').dataset.choose;";
    let policy = browser.run(first).as_str().unwrap().to_owned();
    let before = seen(browser, &policy);
    assert!(before > 8, "it is in {before} places only");
    let name = browser.run("return document.querySelector('[data-hide] .policy').innerText;");
    browser.run(&format!("document.querySelector('[data-hide=\"{policy}\"]').click();"));
    assert_eq!(seen(browser, &policy), 0);
    for kind in ["distribution", "iops", "throughput"] {
        let tip = hover(browser, kind, 0.5);
        assert!(!tip.contains(name.as_str().unwrap()), "{kind} still shows it:\n{tip}");
    }
    browser.run(&format!("document.querySelector('[data-choose=\"{policy}\"]').click();"));
    assert_eq!(seen(browser, &policy), before);
}

/// A policy that was hidden from the start appears in every chart when it is chosen.
fn choosing_unpacks(browser: &Browser) {
    let hidden = "return document.querySelector('[data-choose]:not(:checked)').dataset.choose;";
    let policy = browser.run(hidden).as_str().unwrap().to_owned();
    assert_eq!(seen(browser, &policy), 0);
    browser.run(&format!("document.querySelector('[data-choose=\"{policy}\"]').click();"));
    for kind in KINDS {
        let chart = format!(
            "document.querySelector('.chart[data-kind=\"{kind}\"][data-policy=\"{policy}\"], \
             .chart[data-kind=\"{kind}\"] g[data-policy=\"{policy}\"]')"
        );
        browser.wait_for(&format!("return Boolean({chart}?.getClientRects().length);"));
    }
    let order = "const panels = [...document.querySelectorAll('[data-slot^=\"heat\"] .panel')];
        const numbers = panels.map((panel) => Number(panel.dataset.policy));
        return numbers.every((number, index) => !index || numbers[index - 1] < number);";
    assert_eq!(browser.run(order), true, "panels are out of order");
}
