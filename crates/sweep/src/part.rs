//! Parquet files of rows: written in one go, and read back.
//!
//! Optional values have definition levels 0 and 1; lists are the three-level lists of the format,
//! with repetition level 1 from the second element of a row on. Only what [`write`] makes can be
//! read: the columns of the plan, in their order. The footer names the plan, so that a file of
//! another sweep is never taken for one of this.
//!
//! Source: Apache Parquet, "Logical types: lists", and Melnik et al., "Dremel", VLDB 2010.

use crate::column::{CellRow, ColumnKind, Field, KEY, RowColumn, columns};
use crate::plan::{CellKey, SweepPlan};
use anyhow::{Context, Result, anyhow, bail};
use parquet::basic::{Compression, Encoding, GzipLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type,
};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

pub const GROUP_ROWS: usize = 65_536;
/// The key of the footer under which the hash of the plan is.
const PLAN: &str = "mirrorball.plan";

/// Use of a file of rows.
#[derive(Clone, Copy, Debug)]
pub enum FilePurpose<'a> {
    /// A part of a sweep, which this program reads.
    Part {
        /// The machine that ran the cells, for people.
        host: &'a str,
    },
    /// All rows of a sweep, for any program that reads Parquet.
    Packed,
}

#[derive(Debug)]
pub struct PartWriter<W: Write + Send> {
    columns: Vec<RowColumn>,
    writer: SerializedFileWriter<W>,
}

impl<W: Write + Send> PartWriter<W> {
    /// Starts a file of rows of `plan`.
    pub fn new(
        file: W,
        plan: &SweepPlan,
        plan_hash: &str,
        purpose: FilePurpose<'_>,
    ) -> Result<Self> {
        let columns = columns(plan);
        let schema = Arc::new(parse_message_type(&message(&columns))?);
        let mut footer = vec![
            entry(PLAN, plan_hash),
            entry("mirrorball.build", &plan.build.to_string()),
            entry("mirrorball.bins", "fio: 64 per octave from 64 ns on, exact below 128 ns"),
        ];
        if let FilePurpose::Part { host } = purpose {
            footer.push(entry("mirrorball.host", host));
        }
        let properties = properties(&columns, purpose).set_key_value_metadata(Some(footer)).build();
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
        Ok(PartWriter { columns, writer })
    }

    pub fn write(&mut self, rows: &[CellRow]) -> Result<()> {
        let mut group = self.writer.next_row_group()?;
        for (place, column) in self.columns.iter().enumerate() {
            let fields = rows.iter().map(|row| &row[place]);
            let mut writer = group.next_column()?.context("a column is missing")?;
            write_column(&mut writer, column.kind, fields)?;
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }

    pub fn finish(mut self) -> Result<()> {
        self.writer.finish()?;
        Ok(())
    }
}

fn entry(key: &str, value: &str) -> KeyValue {
    KeyValue::new(key.to_owned(), value.to_owned())
}

fn message(columns: &[RowColumn]) -> String {
    let list = |name: &str, element: &str| {
        format!("required group {name} (LIST) {{ repeated group list {{ required {element}; }} }}")
    };
    let field = |RowColumn { name, kind }: &RowColumn| match kind {
        ColumnKind::Text => format!("required binary {name} (UTF8);"),
        ColumnKind::OptionalText => format!("optional binary {name} (UTF8);"),
        ColumnKind::Whole => format!("required int64 {name} (UINT_64);"),
        ColumnKind::OptionalWhole => format!("optional int64 {name} (UINT_64);"),
        ColumnKind::Real => format!("required double {name};"),
        ColumnKind::OptionalReal => format!("optional double {name};"),
        ColumnKind::Flag => format!("required boolean {name};"),
        ColumnKind::Bins => list(name, "int32 element (UINT_16)"),
        ColumnKind::Wholes => list(name, "int64 element (UINT_64)"),
        ColumnKind::Reals => list(name, "double element"),
    };
    let fields: Vec<String> = columns.iter().map(field).collect();
    format!("message cells {{ {} }}", fields.join(" "))
}

/// Compact and the same for equal rows. Texts come from dictionaries; figures hardly repeat, so a
/// dictionary of them would cost more than it saves. In a part, the bytes of lists of whole numbers
/// are split by their place, because most of the high ones are zero: counts of a histogram take a
/// quarter less. DuckDB before 2.0 cannot read that, so a packed file has none of it.
///
/// Source: Apache Parquet, "Parquet encoding definitions".
fn properties(columns: &[RowColumn], purpose: FilePurpose<'_>) -> WriterPropertiesBuilder {
    let level = GzipLevel::try_new(6).expect("six is a level");
    let mut properties = WriterProperties::builder()
        .set_created_by("mirrorball".to_owned())
        .set_compression(Compression::GZIP(level))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true);
    for RowColumn { name, kind } in columns {
        let encoding = match (kind, purpose) {
            (ColumnKind::Text | ColumnKind::OptionalText | ColumnKind::Flag, _)
            | (ColumnKind::Wholes, FilePurpose::Packed) => continue,
            (ColumnKind::Bins | ColumnKind::Wholes, FilePurpose::Part { .. }) => {
                Encoding::BYTE_STREAM_SPLIT
            }
            // By differences: a histogram is a run of neighbouring bins.
            (ColumnKind::Bins, FilePurpose::Packed) => Encoding::DELTA_BINARY_PACKED,
            (ColumnKind::Whole | ColumnKind::OptionalWhole, _)
            | (ColumnKind::Real | ColumnKind::OptionalReal | ColumnKind::Reals, _) => {
                Encoding::PLAIN
            }
        };
        let element = if kind.is_list() { &["list", "element"][..] } else { &[] };
        let path = std::iter::once(name.as_str()).chain(element.iter().copied());
        let path = ColumnPath::new(path.map(str::to_owned).collect());
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, encoding);
    }
    properties
}

fn write_column<'a>(
    writer: &mut SerializedColumnWriter<'_>,
    kind: ColumnKind,
    fields: impl Iterator<Item = &'a Field>,
) -> Result<()> {
    match kind {
        ColumnKind::Text | ColumnKind::OptionalText => {
            put::<ByteArrayType>(writer, kind, fields, |field| match field {
                Field::Text(text) => vec![ByteArray::from(&**text)],
                _ => Vec::new(),
            })
        }
        ColumnKind::Flag => put::<BoolType>(writer, kind, fields, |field| match field {
            Field::Flag(is_set) => vec![*is_set],
            _ => Vec::new(),
        }),
        ColumnKind::Bins => put::<Int32Type>(writer, kind, fields, |field| match field {
            Field::Wholes(bins) => bins.iter().map(|&bin| bin as i32).collect(),
            _ => Vec::new(),
        }),
        // The format has unsigned numbers as signed ones with the same bits.
        ColumnKind::Whole | ColumnKind::OptionalWhole | ColumnKind::Wholes => {
            put::<Int64Type>(writer, kind, fields, |field| match field {
                Field::Whole(number) => vec![number.cast_signed()],
                Field::Wholes(numbers) => numbers.iter().map(|it| it.cast_signed()).collect(),
                _ => Vec::new(),
            })
        }
        ColumnKind::Real | ColumnKind::OptionalReal | ColumnKind::Reals => {
            put::<DoubleType>(writer, kind, fields, |field| match field {
                Field::Real(number) => vec![*number],
                Field::Reals(numbers) => numbers.to_vec(),
                _ => Vec::new(),
            })
        }
    }
}

/// Writes the values of a column with their levels; `values` gives those of one row.
fn put<'a, T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    kind: ColumnKind,
    fields: impl Iterator<Item = &'a Field>,
    values: fn(&Field) -> Vec<T::T>,
) -> Result<()> {
    let (mut all, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for field in fields {
        let values = values(field);
        if values.is_empty() {
            defined.push(0);
            repeated.push(0);
        }
        for place in 0..values.len() {
            defined.push(1);
            repeated.push(i16::from(place > 0));
        }
        all.extend(values);
    }
    let defined = (!kind.is_required()).then_some(&defined[..]);
    let repeated = kind.is_list().then_some(&repeated[..]);
    writer.typed::<T>().write_batch(&all, defined, repeated)?;
    Ok(())
}

impl ColumnKind {
    fn is_list(self) -> bool {
        matches!(self, ColumnKind::Bins | ColumnKind::Wholes | ColumnKind::Reals)
    }

    fn is_required(self) -> bool {
        matches!(self, ColumnKind::Text | ColumnKind::Whole | ColumnKind::Real | ColumnKind::Flag)
    }
}

/// A Parquet file of rows of a plan.
pub struct PartReader {
    columns: Vec<RowColumn>,
    reader: SerializedFileReader<File>,
}

/// Why a file is not a part.
#[derive(Debug)]
pub enum NoPart {
    /// It ends early, or is no Parquet file: its writer was killed, or the disk lost data.
    Damaged(anyhow::Error),
    /// It is whole, and of something else.
    Foreign(String),
}

impl PartReader {
    /// Opens a file of rows of `plan`. Fails if it is damaged or belongs to another plan.
    pub fn open(path: &Path, plan: &SweepPlan, plan_hash: &str) -> Result<PartReader, NoPart> {
        let file = File::open(path).map_err(|error| NoPart::Damaged(error.into()))?;
        let reader = SerializedFileReader::new(file);
        let reader = reader.map_err(|error| NoPart::Damaged(error.into()))?;
        let metadata = reader.metadata().file_metadata();
        let entries = metadata.key_value_metadata().map_or(&[][..], Vec::as_slice);
        let of = entries.iter().find(|entry| entry.key == PLAN).and_then(|it| it.value.as_deref());
        match of {
            None => return Err(NoPart::Foreign("it is not part of a sweep".to_owned())),
            Some(of) if of != plan_hash => {
                return Err(NoPart::Foreign("it belongs to the plan of another sweep".to_owned()));
            }
            Some(_) => {}
        }
        let columns = columns(plan);
        if metadata.schema_descr().num_columns() != columns.len() {
            return Err(NoPart::Foreign("it has other columns".to_owned()));
        }
        Ok(PartReader { columns, reader })
    }

    pub fn groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    /// The key of each row of a row group. Fails if the file is damaged.
    pub fn keys(&self, group: usize) -> Result<Vec<CellKey>> {
        self.column(group, KEY)?.iter().map(key_of).collect()
    }

    /// The rows of a row group. Fails if the file is damaged.
    pub fn rows(&self, group: usize) -> Result<Vec<CellRow>> {
        let mut rows: Vec<CellRow> = Vec::new();
        for place in 0..self.columns.len() {
            let fields = self.column(group, place)?;
            if place == 0 {
                let empty = || Vec::with_capacity(self.columns.len());
                rows = fields.iter().map(|_| empty()).collect();
            }
            for (row, field) in rows.iter_mut().zip(fields) {
                row.push(field);
            }
        }
        Ok(rows)
    }

    fn column(&self, group: usize, place: usize) -> Result<Vec<Field>> {
        let group = self.reader.get_row_group(group)?;
        let rows = usize::try_from(group.metadata().num_rows())?;
        let kind = self.columns[place].kind;
        let fields = read_column(group.get_column_reader(place)?, kind, rows)?;
        if fields.len() != rows {
            bail!("column `{}` has {} of {rows} rows", self.columns[place].name, fields.len());
        }
        Ok(fields)
    }
}

/// The key of a row. Fails if the field is none.
pub fn key_of(field: &Field) -> Result<CellKey> {
    let Field::Text(text) = field else { bail!("a key is no text") };
    let key = (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok()).flatten();
    key.ok_or_else(|| anyhow!("`{text}` is no key: a key has 32 hexadecimal digits"))
}

fn read_column(reader: ColumnReader, kind: ColumnKind, rows: usize) -> Result<Vec<Field>> {
    match kind {
        ColumnKind::Text | ColumnKind::OptionalText => {
            // The same text is kept once.
            let mut known: BTreeMap<Vec<u8>, Arc<str>> = BTreeMap::new();
            let fields = get::<ByteArrayType, _>(reader, kind, rows, |values| {
                let Some(value) = values.first() else { return Ok(Field::Missing) };
                if let Some(text) = known.get(value.data()) {
                    return Ok(Field::Text(Arc::clone(text)));
                }
                let text: Arc<str> = std::str::from_utf8(value.data())?.into();
                known.insert(value.data().to_vec(), Arc::clone(&text));
                Ok(Field::Text(text))
            })?;
            Ok(fields)
        }
        ColumnKind::Flag => get::<BoolType, _>(reader, kind, rows, |values| {
            Ok(values.first().map_or(Field::Missing, |is_set| Field::Flag(*is_set)))
        }),
        ColumnKind::Bins => get::<Int32Type, _>(reader, kind, rows, |bins| {
            Ok(Field::Wholes(bins.iter().map(|&bin| u64::from(bin.cast_unsigned())).collect()))
        }),
        ColumnKind::Wholes => get::<Int64Type, _>(reader, kind, rows, |values| {
            Ok(Field::Wholes(values.iter().map(|it| it.cast_unsigned()).collect()))
        }),
        ColumnKind::Whole | ColumnKind::OptionalWhole => {
            get::<Int64Type, _>(reader, kind, rows, |values| {
                let whole = |it: &i64| Field::Whole(it.cast_unsigned());
                Ok(values.first().map_or(Field::Missing, whole))
            })
        }
        ColumnKind::Real | ColumnKind::OptionalReal => {
            get::<DoubleType, _>(reader, kind, rows, |values| {
                Ok(values.first().map_or(Field::Missing, |it| Field::Real(*it)))
            })
        }
        ColumnKind::Reals => {
            get::<DoubleType, _>(reader, kind, rows, |values| Ok(Field::Reals(values.into())))
        }
    }
}

/// Reads a column; `field` makes the field of a row of its values.
fn get<T: DataType, F: FnMut(&[T::T]) -> Result<Field>>(
    reader: ColumnReader,
    kind: ColumnKind,
    rows: usize,
    mut field: F,
) -> Result<Vec<Field>> {
    let mut reader: ColumnReaderImpl<T> = get_typed_column_reader(reader);
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    let mut read = 0;
    while read < rows {
        let levels = (!kind.is_required()).then_some(&mut defined);
        let repeats = kind.is_list().then_some(&mut repeated);
        let (records, ..) = reader.read_records(rows - read, levels, repeats, &mut values)?;
        if records == 0 {
            break;
        }
        read += records;
    }
    if kind.is_required() {
        return values.chunks(1).map(field).collect();
    }
    let mut fields = Vec::new();
    let (mut start, mut end) = (0, 0);
    for (place, &level) in defined.iter().enumerate() {
        end += usize::from(level > 0);
        let goes_on = kind.is_list() && repeated.get(place + 1) == Some(&1);
        if !goes_on {
            fields.push(field(values.get(start..end).context("values are missing")?)?);
            start = end;
        }
    }
    Ok(fields)
}

#[cfg(test)]
mod tests;
