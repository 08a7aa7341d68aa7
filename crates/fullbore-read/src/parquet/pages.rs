//! The pages of a row group before decoding: decompressed up to a limit, and refused if decoding them
//! would exceed the memory limit.
//!
//! The library hands out batches of a fixed number of rows, whatever they take. So each page is measured
//! when it comes, and where a batch of its rows would be too large the reader is opened again for fewer
//! rows at a time.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::measure::{Leaf, Parts, measure};
use super::memory::{Held, PageMemory};
use super::places::Column;
use super::unpack::{Unpacking, unpack};
use crate::constants::PARQUET_BATCH_BYTES;
use crate::opened::Opened;

/// Bytes of an object that are asked for ahead, for all columns of a row group together; and the least of a
/// request.
const AHEAD_BYTES: u64 = 16 << 20;
const REQUEST_BYTES_MIN: u64 = 64 << 10;

/// A row group of an object that is no larger is fetched as one.
pub const WHOLE_BYTES: u64 = 4 << 20;

/// Why a reader stopped, where that is no fault of the file's.
#[derive(Debug)]
pub enum Trouble {
    /// At most so many rows are to be decoded at a time.
    FewerRows(usize),
    /// Others hold the memory.
    Later,
    /// More than may be taken; what is, in words.
    TooMuch(String),
}

/// What decoding may take, and what it takes.
#[derive(Debug)]
pub struct Bounds {
    /// Rows that are decoded at a time.
    pub rows: usize,
    /// Most bytes of all pages that are held.
    pub pages_bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    held: Held,
    /// What a row takes, by leaf.
    row_bytes: Vec<u64>,
    trouble: Option<Trouble>,
}

impl Bounds {
    pub fn new(rows: usize, pages_bytes_max: u64, leaves: usize, memory: Arc<PageMemory>) -> Self {
        let state = State { held: Held::none(memory), row_bytes: vec![0; leaves], trouble: None };
        Self { rows, pages_bytes_max, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Why the reader stopped, if it was for these bounds.
    pub fn take_trouble(&self) -> Option<Trouble> {
        self.lock().trouble.take()
    }

    /// Takes memory for a page that is there in the place of others; the error ends the reader.
    fn take(&self, bytes: u64, instead_of: u64, column: &str) -> Result<()> {
        let mut state = self.lock();
        state.held.give_back(instead_of);
        if state.held.bytes() + bytes > self.pages_bytes_max {
            let message = format!(
                "column {column:?}: the pages to be decoded at once take more than {} bytes",
                self.pages_bytes_max
            );
            return Err(state.stop(Trouble::TooMuch(message)));
        }
        if !state.held.take(bytes) {
            return Err(state.stop(Trouble::Later));
        }
        Ok(())
    }

    /// Notes what a row of a leaf takes from now on; the error ends the reader.
    fn note(&self, leaf: usize, row_bytes: u64) -> Result<()> {
        let mut state = self.lock();
        state.row_bytes[leaf] = row_bytes;
        let all = state.row_bytes.iter().fold(0u64, |all, bytes| all.saturating_add(*bytes));
        if self.rows > 1 && all.saturating_mul(self.rows as u64) > PARQUET_BATCH_BYTES {
            // Not a little fewer each time: what is before the batch is passed again.
            let rows = (PARQUET_BATCH_BYTES / all.max(1)) as usize;
            let rows = rows.min(self.rows / 2).max(1);
            return Err(state.stop(Trouble::FewerRows(rows)));
        }
        Ok(())
    }

    pub fn stop(&self, trouble: Trouble) -> ParquetError {
        self.lock().stop(trouble)
    }
}

impl State {
    fn stop(&mut self, trouble: Trouble) -> ParquetError {
        self.trouble.get_or_insert(trouble);
        ParquetError::General("the reader is to be opened again".into())
    }
}

/// A row group whose pages are bounded.
pub struct Group {
    pub file: Arc<Opened>,
    pub metadata: Arc<ParquetMetaData>,
    pub number: usize,
    /// Columns that are read.
    pub columns: usize,
    /// All of it, and where it begins, where it was fetched as one.
    pub whole: Option<(u64, Bytes)>,
    pub bounds: Arc<Bounds>,
}

impl RowGroups for Group {
    fn num_rows(&self) -> usize {
        self.metadata.row_group(self.number).num_rows() as usize
    }

    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>> {
        Ok(Box::new(One(Some(Bounded::open(self, leaf)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(self.number)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// What a small row group takes from its first to its last wanted column: of an object it is fetched by one
/// request instead of one for each. `None` of a large one.
pub fn small_span(
    group: &RowGroupMetaData,
    wanted: impl Fn(usize) -> bool,
) -> Result<Option<Range<u64>>> {
    let (mut start, mut end) = (u64::MAX, 0);
    for leaf in (0..group.num_columns()).filter(|leaf| wanted(*leaf)) {
        let chunk = group.column(leaf);
        check_places(chunk)?;
        let (from, bytes) = chunk.byte_range();
        (start, end) = (start.min(from), end.max(from.saturating_add(bytes)));
    }
    Ok((start < end && end - start <= WHOLE_BYTES).then_some(start..end))
}

/// The only column chunk of a group.
struct One(Option<Result<Bounded>>);

impl Iterator for One {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.take()?.map(|pages| Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for One {}

/// The pages of one column chunk.
struct Bounded {
    /// Gives pages as they are packed.
    packed: SerializedPageReader<Column>,
    codec: Compression,
    number: usize,
    name: String,
    leaf: Leaf,
    bounds: Arc<Bounds>,
    /// Bytes held of the dictionary, and of the page that came last with what its decoder takes.
    dictionary_bytes: u64,
    page_bytes: u64,
    /// Values of the row so far that the last page ended with.
    carried: u64,
}

impl Bounded {
    fn open(group: &Group, number: usize) -> Result<Self> {
        let chunk = group.metadata.row_group(group.number).column(number);
        check_places(chunk)?;
        let column = chunk.column_descr();
        let leaf = Leaf {
            physical: column.physical_type(),
            type_length: usize::try_from(column.type_length()).unwrap_or(0),
            max_rep_level: column.max_rep_level(),
            max_def_level: column.max_def_level(),
        };
        // So that the library reads the pages' heads, and unpacks nothing.
        let as_it_is =
            chunk.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
        let rows = group.num_rows();
        let (start, bytes) = chunk.byte_range();
        let ahead = (AHEAD_BYTES / 2 / group.columns.max(1) as u64).max(REQUEST_BYTES_MIN);
        let end = start.saturating_add(bytes);
        let bounds = group.bounds.clone();
        let pages = match &group.whole {
            Some(whole) => Column::within(whole, bounds),
            None => Column::new(&group.file, start, end, ahead, bounds),
        };
        Ok(Self {
            packed: SerializedPageReader::new(Arc::new(pages), &as_it_is, rows, None)?,
            codec: chunk.compression(),
            number,
            name: column.path().string(),
            leaf,
            bounds: group.bounds.clone(),
            dictionary_bytes: 0,
            page_bytes: 0,
            carried: 0,
        })
    }

    /// A page unpacked and measured.
    fn checked(&mut self, page: Page) -> Result<Page> {
        let page = self.unpacked(page)?;
        let bytes = page.buffer().len() as u64;
        if page.is_dictionary_page() {
            // Its values are views of it.
            let bytes = bytes + 16 * u64::from(page.num_values()).min(bytes);
            self.bounds.take(bytes, self.dictionary_bytes, &self.name)?;
            self.dictionary_bytes = bytes;
            return Ok(page);
        }
        let wrong =
            |why: &str| ParquetError::General(format!("column {:?}: a page: {why}", self.name));
        let parts = parts(&page, self.leaf).ok_or_else(|| wrong("it is cut off"))?;
        let cost =
            measure(self.leaf, parts, &mut self.carried, PARQUET_BATCH_BYTES).map_err(wrong)?;
        if cost.longest_row_bytes > self.bounds.pages_bytes_max {
            let message = format!(
                "column {:?} has a row of {} bytes or more",
                self.name, self.bounds.pages_bytes_max
            );
            return Err(self.bounds.stop(Trouble::TooMuch(message)));
        }
        let bytes = bytes + cost.fixed_bytes;
        self.bounds.take(bytes, self.page_bytes, &self.name)?;
        self.page_bytes = bytes;
        self.bounds.note(self.number, cost.row_bytes)?;
        Ok(page)
    }

    fn unpacked(&self, mut page: Page) -> Result<Page> {
        let (head, is_packed) = match &page {
            Page::DataPageV2 {
                def_levels_byte_len, rep_levels_byte_len, is_compressed, ..
            } => {
                // Levels are never packed there.
                ((*def_levels_byte_len as usize) + (*rep_levels_byte_len as usize), *is_compressed)
            }
            _ => (0, true),
        };
        let (Page::DataPage { buf, .. }
        | Page::DataPageV2 { buf, .. }
        | Page::DictionaryPage { buf, .. }) = &mut page;
        let limit = usize::try_from(self.bounds.pages_bytes_max).unwrap_or(usize::MAX);
        let Some(body) = buf.get(head..) else {
            return Err(ParquetError::General("a page is cut off".into()));
        };
        if self.codec == Compression::UNCOMPRESSED || !is_packed || body.is_empty() {
            return Ok(page);
        }
        let unpacked = match unpack(self.codec, body, limit) {
            Ok(unpacked) => unpacked,
            Err(Unpacking::TooLong) => {
                let message =
                    format!("column {:?} has a page of more than {limit} bytes", self.name);
                return Err(self.bounds.stop(Trouble::TooMuch(message)));
            }
            Err(Unpacking::Damaged(why)) => {
                return Err(ParquetError::General(format!(
                    "column {:?}: a page can't be unpacked: {why}",
                    self.name
                )));
            }
            Err(Unpacking::Unknown(codec)) => {
                return Err(ParquetError::NYI(format!(
                    "it uses {codec} compression, which this build does not support"
                )));
            }
        };
        *buf = match head {
            0 => unpacked.into(),
            head => [&buf[..head], &unpacked].concat().into(),
        };
        Ok(page)
    }
}

/// The library takes for granted that a chunk lies at a place.
fn check_places(chunk: &ColumnChunkMetaData) -> Result<()> {
    let places = [
        Some(chunk.data_page_offset()),
        chunk.dictionary_page_offset(),
        Some(chunk.compressed_size()),
    ];
    match places.into_iter().flatten().all(|place| place >= 0) {
        true => Ok(()),
        false => Err(ParquetError::General("a column lies at no place of the file".into())),
    }
}

/// The parts of a data page; `None` where it ends before they do.
fn parts(page: &Page, leaf: Leaf) -> Option<Parts<'_>> {
    match page {
        Page::DataPage {
            buf,
            num_values,
            encoding,
            def_level_encoding,
            rep_level_encoding,
            ..
        } => {
            let (mut rest, count) = (&buf[..], *num_values);
            let repetitions = levels(&mut rest, leaf.max_rep_level, *rep_level_encoding, count)?;
            levels(&mut rest, leaf.max_def_level, *def_level_encoding, count)?;
            Some(Parts { repetitions, values: rest, count: count.into(), encoding: *encoding })
        }
        Page::DataPageV2 {
            buf,
            num_values,
            encoding,
            def_levels_byte_len,
            rep_levels_byte_len,
            ..
        } => {
            let (repetitions, rest) = buf.split_at_checked(*rep_levels_byte_len as usize)?;
            let (_, values) = rest.split_at_checked(*def_levels_byte_len as usize)?;
            let count = u64::from(*num_values);
            Some(Parts { repetitions: Some(repetitions), values, count, encoding: *encoding })
        }
        Page::DictionaryPage { .. } => None,
    }
}

/// Takes the levels that a page of the first version begins with; gives them where they are run-length
/// encoded.
fn levels<'a>(
    rest: &mut &'a [u8],
    max: i16,
    encoding: Encoding,
    count: u32,
) -> Option<Option<&'a [u8]>> {
    if max == 0 {
        return Some(None);
    }
    let found;
    if encoding == Encoding::RLE {
        let (length, after) = rest.split_first_chunk::<4>()?;
        (found, *rest) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        return Some(Some(found));
    }
    let bits = (i16::BITS - max.leading_zeros()) as usize;
    (_, *rest) = rest.split_at_checked((count as usize * bits).div_ceil(8))?;
    Some(None)
}

impl Iterator for Bounded {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Bounded {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        match self.packed.get_next_page()? {
            Some(page) => self.checked(page).map(Some),
            None => Ok(None),
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.packed.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.packed.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.packed.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> Result<Option<Page>> {
        match self.packed.take_deferred_dictionary()? {
            Some(page) => self.checked(page).map(Some),
            None => Ok(None),
        }
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.packed.at_record_boundary()
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        self.bounds.lock().held.give_back(self.dictionary_bytes + self.page_bytes);
    }
}
