//! Variants of an array file or a job file: the same text with other values.
//!
//! An array is TOML, so a parameter is named by its path: `host.overhead`, `member.2.fault` or
//! `member.all.model`; entries of lists count from one. A parameter of a job is an option of all
//! its sections, `iodepth`, or of one of them, `reader.iodepth`. What is written is an ordinary
//! file, which the readers of arrays and jobs then check.

use anyhow::{Result, bail};
use toml::{Table, Value};

/// The word for all entries of a list.
const ALL: &str = "all";

/// The text of an array with the parameter `path` set to `value`. Fails if the text is not TOML, or
/// has nothing at the path.
pub fn array_text(text: &str, path: &str, value: &Value) -> Result<String> {
    let mut root = Value::Table(text.parse::<Table>()?);
    let steps: Vec<&str> = path.split('.').collect();
    set(&mut root, &steps, path, value)?;
    Ok(toml::to_string(&root)?)
}

fn set(place: &mut Value, steps: &[&str], path: &str, value: &Value) -> Result<()> {
    let Some((&step, rest)) = steps.split_first() else {
        *place = value.clone();
        return Ok(());
    };
    match place {
        Value::Table(table) => {
            let nothing = Value::Table(Table::new());
            set(table.entry(step).or_insert(nothing), rest, path, value)
        }
        Value::Array(entries) if step == ALL => {
            entries.iter_mut().try_for_each(|entry| set(entry, rest, path, value))
        }
        Value::Array(entries) => {
            let count = entries.len();
            let number = step.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            match number.and_then(|number| entries.get_mut(number)) {
                Some(entry) => set(entry, rest, path, value),
                None => bail!(
                    "`{path}`: there is no entry `{step}`\n  help: give a number from 1 to {count} \
                     or `{ALL}`; an entry with a `count` is one entry"
                ),
            }
        }
        _ => bail!("`{path}`: `{step}` is below a value that has no parts"),
    }
}

/// The text of a job with the option `path` set to `value`. Fails if the job has no such section,
/// or an option cannot have such a value.
pub fn job_text(text: &str, path: &str, value: &Value) -> Result<String> {
    let (wanted, option) = match path.rsplit_once('.') {
        Some((section, option)) => (Some(section), option),
        None => (None, path),
    };
    let line_of_value = format!("{option}={}", option_text(path, value)?);
    let (mut lines, mut is_inside, mut is_found) = (Vec::new(), false, false);
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(section) = trimmed.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            is_inside = section != "global" && wanted.is_none_or(|wanted| wanted == section);
            is_found |= is_inside;
            lines.push(line);
            if is_inside {
                lines.push(&line_of_value);
            }
            continue;
        }
        let key = trimmed.split('=').next().unwrap_or_default().trim_end();
        if !(is_inside && key == option) {
            lines.push(line);
        }
    }
    match wanted {
        _ if is_found => Ok(lines.join("\n") + "\n"),
        Some(section) => bail!("`{path}`: the job has no section `{section}`"),
        None => bail!("`{path}`: the job has no section"),
    }
}

fn option_text(path: &str, value: &Value) -> Result<String> {
    Ok(match value {
        Value::String(text) if !text.contains(['\n', '\r']) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(is_set) => u8::from(*is_set).to_string(),
        _ => bail!("`{path}`: an option of a job is a text, a number or a boolean, not {value}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_one_entry_or_to_all() {
        let text = "profile = \"raid1\"\n[[member]]\nmodel = \"a\"\n[[member]]\nmodel = \"b\"\n";
        let set = |path, value: &str| array_text(text, path, &Value::String(value.to_owned()));
        let second = set("member.2.model", "c").unwrap();
        assert!(second.contains("\"a\"") && second.ends_with("model = \"c\"\n"), "{second}");
        assert_eq!(set("member.all.model", "c").unwrap().matches("\"c\"").count(), 2);
        assert!(set("host.overhead", "5us").unwrap().contains("[host]\noverhead = \"5us\"\n"));
        for wrong in ["member.3.model", "member.0.model", "member.x.model"] {
            let error = set(wrong, "c").unwrap_err().to_string();
            assert!(error.contains("a number from 1 to 2 or `all`"), "{error}");
        }
        let error = set("profile.x", "c").unwrap_err().to_string();
        assert!(error.contains("below a value that has no parts"), "{error}");
    }

    #[test]
    fn an_option_is_set_in_every_section_or_in_one() {
        let text = "[global]\niodepth=2\n[a]\nrw=read\niodepth = 4\n[b]\nrw=write\n";
        let eight = Value::Integer(8);
        assert_eq!(
            job_text(text, "iodepth", &eight).unwrap(),
            "[global]\niodepth=2\n[a]\niodepth=8\nrw=read\n[b]\niodepth=8\nrw=write\n"
        );
        assert_eq!(
            job_text(text, "b.iodepth", &eight).unwrap(),
            "[global]\niodepth=2\n[a]\nrw=read\niodepth = 4\n[b]\niodepth=8\nrw=write\n"
        );
        let error = job_text(text, "c.iodepth", &eight).unwrap_err().to_string();
        assert_eq!(error, "`c.iodepth`: the job has no section `c`");
        let list = Value::Array(vec![eight]);
        let error = job_text(text, "iodepth", &list).unwrap_err().to_string();
        assert!(error.contains("not [8]"), "{error}");
    }
}
