//! A table before it is drawn: columns, rows, and what stands out. Other listings of the program
//! are drawn with it too.

/// Blanks between columns.
const GAP: usize = 2;
/// Blanks between columns under one heading.
const GAP_IN_GROUP: usize = 1;

/// A table.
#[derive(Debug)]
pub struct Grid {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<GridRow>,
}

/// One column.
#[derive(Debug)]
pub struct Column {
    /// Its heading; lines are parted by newlines.
    pub title: String,
    /// A heading shared with its neighbours, above their own.
    pub group: &'static str,
    /// Where its texts stand.
    pub align: Align,
}

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Names.
    Left,
    /// Numbers.
    Right,
}

/// One row: as many texts as there are columns.
#[derive(Debug)]
pub struct GridRow {
    /// What it is, for the eye.
    pub emphasis: Emphasis,
    /// One text per column.
    pub texts: Vec<String>,
}

/// What a row is, for the eye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emphasis {
    /// One among others.
    None,
    /// The best of its table.
    Best,
    /// Not to be told from the best.
    Tied,
    /// Beside the others, for comparison.
    Reference,
    /// Not as it should be.
    Wrong,
}

impl Emphasis {
    /// The mark in front of a row.
    pub fn mark(self) -> &'static str {
        match self {
            Emphasis::None | Emphasis::Reference => " ",
            Emphasis::Best => "*",
            Emphasis::Tied => "=",
            Emphasis::Wrong => "!",
        }
    }
}

impl Column {
    /// A column of names.
    pub fn left(title: impl Into<String>) -> Column {
        Column { title: title.into(), group: "", align: Align::Left }
    }

    /// A column of numbers.
    pub fn right(title: impl Into<String>) -> Column {
        Column { title: title.into(), group: "", align: Align::Right }
    }

    /// The same column under a heading it shares.
    pub fn under(self, group: &'static str) -> Column {
        Column { group, ..self }
    }
}

impl Grid {
    /// The width of each column: that of its widest text, counted in characters. The first column
    /// of a group is widened until the group's heading has room.
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
            widths[first] += width(group[0].group).saturating_sub(taken);
            first += group.len();
        }
        widths
    }

    /// The blanks before each column; columns of one group stand closer.
    pub fn gaps(&self) -> Vec<usize> {
        let is_joined =
            |pair: &[Column]| !pair[0].group.is_empty() && pair[0].group == pair[1].group;
        let between = self.columns.windows(2);
        let gaps = between.map(|pair| if is_joined(pair) { GAP_IN_GROUP } else { GAP });
        [0].into_iter().chain(gaps).collect()
    }
}
