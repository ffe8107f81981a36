//! A table before it is drawn: columns, rows and emphasis. Other listings of the program use it
//! too.

/// Width of the mark in front of a row and the blank after it.
const MARK: usize = 2;
/// Blanks between columns.
const GAP: usize = 2;
/// Blanks between columns under one heading.
const GAP_IN_GROUP: usize = 1;
/// Names are not shortened to fewer characters.
const NAME_MIN: usize = 10;
/// Headings of groups are not shortened to fewer characters for each column.
const GROUP_MIN: usize = 9;

#[derive(Debug)]
pub struct Grid {
    pub columns: Vec<Column>,
    pub rows: Vec<GridRow>,
}

#[derive(Clone, Debug)]
pub struct Column {
    /// Its heading; lines are parted by newlines.
    pub title: String,
    /// A heading shared with its neighbours, above their own.
    pub group: String,
    pub align: Align,
    /// Columns with the highest drop order are left out first, together, if the table is too wide;
    /// a column of order zero stays.
    pub drop_order: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// One row: as many texts as there are columns.
#[derive(Debug)]
pub struct GridRow {
    pub emphasis: Emphasis,
    /// One text per column.
    pub texts: Vec<String>,
}

/// A table of items that is made column by column.
#[derive(Debug)]
pub struct GridBuilder<T> {
    items: Vec<T>,
    grid: Grid,
}

impl<T> GridBuilder<T> {
    #[must_use]
    pub fn marked(mut self, emphasis: impl Fn(&T) -> Emphasis) -> GridBuilder<T> {
        for (item, row) in self.items.iter().zip(&mut self.grid.rows) {
            row.emphasis = emphasis(item);
        }
        self
    }

    #[must_use]
    pub fn column(mut self, column: Column, text: impl Fn(&T) -> String) -> GridBuilder<T> {
        self.grid.columns.push(column);
        for (item, row) in self.items.iter().zip(&mut self.grid.rows) {
            row.texts.push(text(item));
        }
        self
    }

    pub fn build(self) -> Grid {
        self.grid
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emphasis {
    /// Not marked.
    None,
    Best,
    Tied,
    /// A reference that is not ranked.
    Reference,
    /// Faster than what it is compared with.
    Faster,
    /// Slower than what it is compared with.
    Slower,
    /// Different, but not testable.
    Unsure,
    Wrong,
}

impl Emphasis {
    /// The same without a mark.
    pub fn unmarked(self) -> Emphasis {
        match self {
            Emphasis::Reference => Emphasis::Reference,
            _ => Emphasis::None,
        }
    }

    /// The mark in front of a row.
    pub fn mark(self) -> &'static str {
        match self {
            Emphasis::None | Emphasis::Reference => " ",
            Emphasis::Best => "*",
            Emphasis::Tied => "=",
            Emphasis::Faster => "+",
            Emphasis::Slower => "-",
            Emphasis::Unsure => "?",
            Emphasis::Wrong => "!",
        }
    }
}

impl Column {
    pub fn left(title: impl Into<String>) -> Column {
        Column { title: title.into(), group: String::new(), align: Align::Left, drop_order: 0 }
    }

    pub fn right(title: impl Into<String>) -> Column {
        Column { align: Align::Right, ..Column::left(title) }
    }

    /// The same column under a heading it shares.
    pub fn under(self, group: impl Into<String>) -> Column {
        Column { group: group.into(), ..self }
    }

    /// The same column, which may be left out of a narrow table.
    pub fn droppable(self, drop_order: u8) -> Column {
        Column { drop_order, ..self }
    }
}

impl Grid {
    /// A table with a row for each of `items`, without columns.
    pub fn of<T>(items: impl IntoIterator<Item = T>) -> GridBuilder<T> {
        let items: Vec<T> = items.into_iter().collect();
        let row = |_: &T| GridRow { emphasis: Emphasis::None, texts: Vec::new() };
        let grid = Grid { columns: Vec::new(), rows: items.iter().map(row).collect() };
        GridBuilder { items, grid }
    }

    /// The width of each column: that of its widest text, counted in characters. The first column
    /// of a group is widened until the group's heading fits.
    pub fn widths(&self) -> Vec<usize> {
        let width = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        let of_column = |(index, column): (usize, &Column)| {
            let texts = self.rows.iter().map(|row| width(&row.texts[index]));
            texts.max().unwrap_or(0).max(width(&column.title))
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(of_column).collect();
        let mut first = 0;
        for group in self.columns.chunk_by(|left, right| left.group == right.group) {
            let gaps = (group.len() - 1) * GAP_IN_GROUP;
            let taken = widths[first..first + group.len()].iter().sum::<usize>() + gaps;
            widths[first] += width(&group[0].group).saturating_sub(taken);
            first += group.len();
        }
        widths
    }

    /// How many characters a line of it takes.
    pub fn width(&self) -> usize {
        MARK + self.widths().iter().sum::<usize>() + self.gaps().iter().sum::<usize>()
    }

    /// How many characters a line takes of the columns that are never left out.
    pub fn least_width(&self) -> usize {
        let all = self.columns.iter().zip(self.widths());
        let kept = all.filter(|(column, _)| column.drop_order == 0);
        MARK + kept.map(|(_, width)| GAP + width).sum::<usize>().saturating_sub(GAP)
    }

    /// The table without the droppable columns that do not fit into lines of `width` characters,
    /// and the titles of those.
    pub fn fitted(mut self, width: usize) -> (Grid, Vec<String>) {
        let mut left_out = Vec::new();
        while self.width() > width {
            let rank = self.columns.iter().map(|column| column.drop_order).max().unwrap_or(0);
            if rank == 0 {
                break;
            }
            let going: Vec<usize> = (0..self.columns.len())
                .filter(|&index| self.columns[index].drop_order == rank)
                .collect();
            let mut titles: Vec<String> = going.iter().map(|&index| self.title(index)).collect();
            titles.dedup();
            left_out.extend(titles);
            self.remove(&going);
        }
        self.clip_names(width);
        (self, left_out)
    }

    /// The table in parts to draw one below the other, each with the first column; one part if it
    /// fits. Nothing is left out.
    pub fn folded(self, width: usize) -> Vec<Grid> {
        let mut parts = Vec::new();
        let mut rest = self;
        while rest.width() > width && rest.columns.len() > 2 {
            let fits = |&count: &usize| rest.first(count).width() <= width;
            let count = (2..rest.columns.len()).rev().find(fits).unwrap_or(2);
            parts.push(rest.first(count));
            rest.remove(&(1..count).collect::<Vec<usize>>());
        }
        parts.push(rest);
        parts.iter_mut().for_each(|part| part.clip_names(width));
        parts
    }

    fn first(&self, count: usize) -> Grid {
        let row =
            |row: &GridRow| GridRow { emphasis: row.emphasis, texts: row.texts[..count].to_vec() };
        Grid { columns: self.columns[..count].to_vec(), rows: self.rows.iter().map(row).collect() }
    }

    /// The title of a column where it is left out: that of its group, with its own if it is alone.
    fn title(&self, index: usize) -> String {
        let Column { title, group, .. } = &self.columns[index];
        let of_group = self.columns.iter().filter(|column| column.group == *group).count();
        let whole = match (group.is_empty(), of_group) {
            (true, _) => title.clone(),
            (false, 1) => format!("{group} {title}"),
            (false, _) => group.clone(),
        };
        whole.replace("-\n", "").replace('\n', " ")
    }

    /// Shortens group headings to their columns, and then the longest names, until the table fits
    /// or names have [`NAME_MIN`] characters.
    fn clip_names(&mut self, width: usize) {
        let is_narrow = |grid: &Grid| grid.width() <= width;
        if is_narrow(self) {
            return;
        }
        for group in self.columns.chunk_by_mut(|left, right| left.group == right.group) {
            let heading = clipped(&group[0].group, GROUP_MIN * group.len());
            group.iter_mut().for_each(|column| column.group.clone_from(&heading));
        }
        let of_column =
            |index: usize| self.rows.iter().map(|row| row.texts[index].clone()).collect();
        let whole: Vec<Vec<String>> = (0..self.columns.len()).map(of_column).collect();
        let mut shortest = vec![NAME_MIN; whole.len()];
        while !is_narrow(self) {
            let widths = self.widths();
            let is_name = |index: &usize| {
                self.columns[*index].align == Align::Left && widths[*index] > shortest[*index]
            };
            let names = (0..self.columns.len()).filter(is_name);
            let Some(widest) = names.max_by_key(|&index| widths[index]) else { return };
            let length_max = widths[widest] - 1;
            let Some(names) = all_clipped(&whole[widest], length_max) else {
                shortest[widest] = widths[widest];
                continue;
            };
            for (row, name) in self.rows.iter_mut().zip(names) {
                row.texts[widest] = name;
            }
            let column = &mut self.columns[widest];
            column.title = clipped(&column.title, length_max);
        }
    }

    fn remove(&mut self, going: &[usize]) {
        let stays = |index: usize| !going.contains(&index);
        let mut index = 0..;
        self.columns.retain(|_| index.next().is_some_and(stays));
        for row in &mut self.rows {
            let mut index = 0..;
            row.texts.retain(|_| index.next().is_some_and(stays));
        }
    }

    /// Blanks before each column; fewer within a group.
    pub fn gaps(&self) -> Vec<usize> {
        let is_joined =
            |pair: &[Column]| !pair[0].group.is_empty() && pair[0].group == pair[1].group;
        let between = self.columns.windows(2);
        let gaps = between.map(|pair| if is_joined(pair) { GAP_IN_GROUP } else { GAP });
        [0].into_iter().chain(gaps).collect()
    }
}

/// The start of a name, where it is longer than `length_max`.
pub(crate) fn clipped(name: &str, length_max: usize) -> String {
    if name.chars().count() <= length_max {
        return name.to_owned();
    }
    name.chars().take(length_max.saturating_sub(2)).chain("..".chars()).collect()
}

/// Names, those longer than `length_max` shortened: to their start, or to their start and as much
/// of their end as tells them from others. `None` if different names cannot stay different.
fn all_clipped(names: &[String], length_max: usize) -> Option<Vec<String>> {
    let mut shown: Vec<String> =
        names.iter().map(|name| clipped_before(name, telling_end(name), length_max)).collect();
    for end in 1..length_max.saturating_sub(2) {
        let is_mistaken = |index: usize, shown: &[String]| {
            let mut others = names.iter().zip(shown);
            others.any(|(name, other)| *name != names[index] && *other == shown[index])
        };
        let mistaken: Vec<usize> =
            (0..names.len()).filter(|&index| is_mistaken(index, &shown)).collect();
        if mistaken.is_empty() {
            return Some(alike(names, shown));
        }
        for index in mistaken {
            let end = end + telling_end(&names[index]);
            // The last word whole, where there is space for it.
            let word = last_word(&names[index], end);
            let end = if word + 2 < length_max { word } else { end };
            if end + 2 < length_max {
                shown[index] = clipped_before(&names[index], end, length_max);
            }
        }
    }
    None
}

/// The shortened names, where the start of one begins that of another with the shorter start, if
/// they stay different.
fn alike(names: &[String], shown: Vec<String>) -> Vec<String> {
    let parts = |index: usize| {
        let is_short = shown[index] != names[index];
        shown[index].rsplit_once("..").filter(|(_, end)| is_short && !end.is_empty())
    };
    let all = 0..names.len();
    let starts: Vec<&str> = all.clone().filter_map(|index| Some(parts(index)?.0)).collect();
    let even = |index: usize| {
        let (start, end) = parts(index)?;
        let shorter = starts.iter().filter(|it| start.starts_with(**it));
        Some(format!("{}..{end}", shorter.min_by_key(|it| it.len())?))
    };
    let even = |index| even(index).unwrap_or_else(|| shown[index].clone());
    let alike: Vec<String> = all.clone().map(even).collect();
    let is_mixed = |a: usize| (0..a).any(|b| alike[a] == alike[b] && names[a] != names[b]);
    if all.clone().any(is_mixed) { shown } else { alike }
}

/// The name without a part before its last `end` characters, where it is longer than `length_max`.
fn clipped_before(name: &str, end: usize, length_max: usize) -> String {
    let count = name.chars().count();
    if count <= length_max || end + 2 > length_max {
        return clipped(name, length_max);
    }
    let start = name.chars().take(length_max - end - 2);
    start.chain("..".chars()).chain(name.chars().skip(count - end)).collect()
}

/// Number of characters of the word, and what follows it, that the last `end` characters of a name
/// begin in.
fn last_word(name: &str, end: usize) -> usize {
    let from_end: Vec<char> = name.chars().rev().collect();
    let is_between = |at: &usize| "-/ ".contains(from_end[*at]);
    (end..from_end.len()).find(is_between).unwrap_or(from_end.len())
}

/// Longest parameter that is kept whole at the end of a shortened name, with its colon.
const PARAMETER_MAX: usize = 6;

/// Number of characters at the end of a name that a start alone does not tell: ` and 8 others` or
/// ` +8`, and a short parameter, as `:256K`, of which a part would be another value.
fn telling_end(name: &str) -> usize {
    let others =
        name.rfind(" and ").filter(|_| name.ends_with("other") || name.ends_with("others"));
    let others = others.or_else(|| name.rfind(" +")).unwrap_or(name.len());
    let is_short = |start: &usize| others - start <= PARAMETER_MAX;
    let start = name[..others].rfind(':').filter(is_short).unwrap_or(others);
    name[start..].chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let columns = vec![
            Column::left("policy"),
            Column::right("of oracle").droppable(1),
            Column::right("ratio").under("a very long heading"),
            Column::left("array and job"),
        ];
        let texts = ["btrfs/inverse-square", "0.912", "1.203", "raid10-eight seq-16-buffered"];
        let texts = texts.map(str::to_owned).to_vec();
        Grid { columns, rows: vec![GridRow { emphasis: Emphasis::None, texts }] }
    }

    #[test]
    fn a_table_is_folded_below_its_first_column() {
        let columns = ["job", "now", "offered", "known"].map(Column::right).to_vec();
        let texts = ["rand-4k", "1.00", "162.88", "162.88"].map(str::to_owned).to_vec();
        let grid = || Grid {
            columns: columns.clone(),
            rows: vec![GridRow { emphasis: Emphasis::None, texts: texts.clone() }],
        };
        let texts = |width| {
            let parts = grid().folded(width);
            parts.iter().map(|part| part.rows[0].texts.join(" ")).collect::<Vec<String>>()
        };
        assert_eq!(texts(40), ["rand-4k 1.00 162.88 162.88"]);
        assert_eq!(texts(30), ["rand-4k 1.00 162.88", "rand-4k 162.88"]);
        let each = ["rand-4k 1.00", "rand-4k 162.88", "rand-4k 162.88"];
        assert_eq!(texts(18), each);
        assert_eq!(texts(3), each);
    }

    #[test]
    fn shortened_names_stay_distinct() {
        let clip = |names: &[&str], length| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            all_clipped(&names, length)
        };
        let releases = ["md/raid1-2012", "md/raid1-2016", "zfs/mirror", "md/raid1-2012"];
        let shown = ["md..2012", "md..2016", "zfs/mi..", "md..2012"].map(str::to_owned).to_vec();
        assert_eq!(clip(&releases, 8), Some(shown));
        let layouts = ["md-raid10-near:2", "md-raid10-far:2", "md-raid10-offset:2"];
        let shown = ["md-r..near:2", "md-r..far:2", "md-r..offset:2"].map(str::to_owned);
        assert_eq!(clip(&layouts, 14).unwrap(), shown, "the word that differs stays whole");
        assert_eq!(clip(&["md/raid1-2012", "md/raid1-2022"], 4), None, "no room for a difference");
        let sizes = ["btrfs/round-robin:96K", "btrfs/round-robin:256K", "btrfs/round-robin:4M"];
        let shown = ["btrfs/round-r..:96K", "btrfs/round-r..:256K", "btrfs/round-robin:4M"];
        assert_eq!(clip(&sizes, 20).unwrap(), shown, "no part of a size, which is another one");
        let counted = clip(&["md/raid1-weighted and 12 others", "md/raid1 +8"], 22).unwrap();
        assert_eq!(counted, ["md/rai.. and 12 others", "md/raid1 +8"]);
    }

    #[test]
    fn columns_are_dropped_before_names_are_shortened() {
        let (wide, left_out) = grid().fitted(120);
        assert!(left_out.is_empty() && wide.rows[0].texts[0] == "btrfs/inverse-square");
        let (narrow, left_out) = grid().fitted(40);
        assert_eq!(left_out, ["of oracle"]);
        assert!(narrow.width() <= 40, "{}", narrow.width());
        assert_eq!(narrow.rows[0].texts, ["btrfs/inver..", "1.203", "raid10-eig.."]);
        assert_eq!(narrow.columns[1].group, "a very ..");
    }
}
