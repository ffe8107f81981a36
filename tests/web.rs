//! The page that answers in a browser, in a real one: headless Chromium, from the disk.
//!
//! `packaging/web --dev` builds the page; without it, or without Chromium, the test says so and
//! passes, unless `CI` is `true`.

use crate::common::external::skip_missing;
use crate::common::{Folder, stdout};
use crate::report_browser::driver::{self, Browser};
use mirrorball_web::Session;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// A solid-state disk and a hard disk, as `/proc/mdstat` and `lsblk` show them.
const PASTED: &str = "md0 : active raid1 sdb1[1] sda1[0]
      976630464 blocks super 1.2 [2/2] [UU]
NAME     SIZE ROTA MODEL
sda    931.5G    1 ST1000NM0033
└─sda1 931.5G    1
sdb    931.5G    0 Samsung SSD 870 EVO 1TB
└─sdb1 931.5G    0
";

/// The page, if it was built and there is a browser.
fn page() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_BIN_EXE_mirrorball"));
    let page = program.parent()?.parent()?.join("web-page/index.html");
    if !page.exists() {
        skip_missing("target/web-page (by packaging/web --dev)");
        return None;
    }
    if !driver::is_installed() {
        skip_missing("chromium (with chromedriver)");
        return None;
    }
    Some(page)
}

fn wait_long(browser: &Browser, script: &str) {
    for _ in 0..240 {
        if browser.run(script) == true {
            return;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    let shown = browser.run("return document.querySelector('main').innerText;");
    panic!("never became true: {script}\n{shown}");
}

#[test]
fn a_pasted_text_is_answered_as_the_program_answers() {
    let Some(page) = page() else { return };
    let browser = Browser::open(&page, 1280);
    wait_long(&browser, "return document.documentElement.dataset.ready === 'true';");
    the_module_understands_texts_as_the_program(&browser);
    let set = "const set = (id, value, event) => {
        const field = document.getElementById(id);
        field.value = value;
        field.dispatchEvent(new Event(event));
    };";
    let paste = json!(PASTED);
    browser.run(&format!("{set} set('paste', {paste}, 'input');"));
    wait_long(&browser, "return document.querySelectorAll('#disks li').length === 2;");
    browser.run(&format!(
        "{set} set('use', 'backup-and-mail', 'change'); set('repeats', 2, 'change');
         set('duration', '100ms', 'change'); document.getElementById('ask').click();"
    ));
    wait_long(&browser, "return !document.getElementById('downloads').hidden;");
    the_program_gives_the_same(&browser);
    a_run_can_be_stopped(&browser);
    the_picture_runs(&browser);
    no_request_leaves(&browser);
    let console = browser.console();
    let is_refusal =
        |line: &Value| line["message"].as_str().is_some_and(|it| it.contains("Policy"));
    assert!(console.iter().all(is_refusal), "on the console: {console:?}");
}

/// Every pasted text of the tests of `detect`, in the browser and here.
fn the_module_understands_texts_as_the_program(browser: &Browser) {
    let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/src/detect/pasted/cases.txt");
    let cases = fs::read_to_string(cases).unwrap();
    let mut texts = vec![String::new()];
    for line in cases.lines() {
        match line.starts_with("=== ") {
            true if texts.last().unwrap().is_empty() => {}
            true => texts.push(String::new()),
            false => *texts.last_mut().unwrap() += &format!("{line}\n"),
        }
    }
    assert!(texts.len() >= 40, "{} texts", texts.len());
    let script = format!(
        "Promise.all({}.map((text) => page.worker.text({{ do: 'understand', text }}))).then(done);",
        json!(texts)
    );
    let replies = browser.run_async(&script);
    for (text, reply) in texts.iter().zip(replies.as_array().unwrap()) {
        let request = json!({ "do": "understand", "text": text });
        let own = Session::default().reply(&request.to_string());
        assert_eq!(reply, &json!(own), "{text}");
    }
}

/// The files of the cells and the answer are those of `mirrorball advise` for the same text.
fn the_program_gives_the_same(browser: &Browser) {
    let folder = Folder::new();
    let job = browser.run("return BACKUP_AND_MAIL;");
    fs::write(folder.path("backup-and-mail.fio"), job.as_str().unwrap()).unwrap();
    let words = ["advise", "-", "backup-and-mail.fio", "-n", "2", "-d", "100ms"];
    fs::write(folder.path("pasted.txt"), PASTED).unwrap();
    let input = Stdio::from(fs::File::open(folder.path("pasted.txt")).unwrap());
    let printed = stdout(&folder.command(&words).stdin(input).output().unwrap());
    let shown = browser.run("return document.getElementById('answer-text').textContent;");
    assert_eq!(shown.as_str().unwrap(), printed);
    let own = browser.run("return Object.fromEntries(page.files);");
    let own: BTreeMap<String, String> = serde_json::from_value(own).unwrap();
    let results = fs::read_dir(folder.path("mirrorball-results")).unwrap();
    let results = results.map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    let mut compared = 0;
    for entry in fs::read_dir(results.join("cells")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // The key at the end of the name, and what is before the text of the array, name the build.
        let stem = |name: &str| name.rsplitn(3, '.').last().unwrap().to_owned();
        let same =
            |(other, _): &(&String, &String)| stem(other) == format!("cells/{}", stem(&name));
        let (_, theirs) = own.iter().find(same).unwrap_or_else(|| panic!("no {name}"));
        let of_build = |text: &str| text.split_once("\"array_text\"").unwrap().1.to_owned();
        assert_eq!(of_build(theirs), of_build(&fs::read_to_string(&path).unwrap()), "{name}");
        compared += 1;
    }
    assert!(compared >= 20 && own.len() == compared + 1, "{compared} cells, and the plan");
}

fn a_run_can_be_stopped(browser: &Browser) {
    browser.run(
        "document.getElementById('use').value = 'mix';
         document.getElementById('duration').value = '';
         document.getElementById('ask').click();",
    );
    wait_long(browser, "return document.getElementById('bar').value >= 1;");
    browser.run("document.getElementById('stop').click();");
    let count = "setTimeout(() => done(page.files.size), 300);";
    let (before, after) = (browser.run_async(count), browser.run_async(count));
    assert_eq!(before, after, "cells are still run");
    assert_eq!(browser.run("return document.getElementById('status').textContent;"), "Stopped.");
}

fn the_picture_runs(browser: &Browser) {
    browser.run("document.getElementById('begin').click();");
    wait_long(browser, "return picture.sides.length === 2 && picture.now > 5e6;");
    browser.run("document.getElementById('which-disk').value = '1';");
    browser.run("document.getElementById('pull').click();");
    wait_long(browser, "return picture.sides.every((it) => it.pulled.has(1) && !it.in_flight[1]);");
    browser.run("document.getElementById('play').click();");
    let rows = "return document.querySelectorAll('#picture-table tbody tr').length;";
    assert_eq!(browser.run(rows), 2, "a row of figures for each policy");
}

/// The page loads nothing, and its policy refuses what a script asks of a host.
fn no_request_leaves(browser: &Browser) {
    let loaded = browser.run(
        "return performance.getEntriesByType('resource').map((it) => it.name)
           .filter((name) => !name.startsWith('blob:') && !name.startsWith('data:'));",
    );
    assert_eq!(loaded, json!([]));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let fetched = browser.run_async(&format!(
        "fetch('http://127.0.0.1:{port}/').then(() => done('sent'), () => done('refused'));"
    ));
    assert_eq!(fetched, "refused");
    assert!(listener.accept().is_err(), "a connection arrived");
}
