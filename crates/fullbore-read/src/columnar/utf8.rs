//! Whether texts are UTF-8: Arrow data of another library says so, and need not be.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericStringArray, OffsetSizeTrait};
use arrow_schema::DataType;

/// The first row of an array that has text, at any depth, which is not UTF-8.
pub fn row_not_utf8(array: &ArrayRef) -> Option<usize> {
    if is_utf8(array) {
        return None;
    }
    (0..array.len()).find(|row| !is_utf8(&array.slice(*row, 1)))
}

fn is_utf8(array: &ArrayRef) -> bool {
    let part = |values: &ArrayRef, ends: &[usize]| {
        is_utf8(&values.slice(ends[0], ends[ends.len() - 1] - ends[0]))
    };
    match array.data_type() {
        DataType::Utf8 => are_utf8(array.as_string::<i32>()),
        DataType::LargeUtf8 => are_utf8(array.as_string::<i64>()),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            part(list.values(), &ends(list.value_offsets()))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            part(list.values(), &ends(list.value_offsets()))
        }
        DataType::FixedSizeList(_, each) => {
            let (list, each) = (array.as_fixed_size_list(), *each as usize);
            let start = list.value_offset_at(0);
            part(list.values(), &[start, start + each * list.len()])
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let entries: ArrayRef = std::sync::Arc::new(map.entries().clone());
            part(&entries, &ends(map.value_offsets()))
        }
        DataType::Struct(_) => array.as_struct().columns().iter().all(is_utf8),
        _ => true,
    }
}

fn ends<O: OffsetSizeTrait>(offsets: &[O]) -> [usize; 2] {
    [offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize()]
}

fn are_utf8<O: OffsetSizeTrait>(texts: &GenericStringArray<O>) -> bool {
    let offsets = texts.value_offsets();
    let [start, end] = ends(offsets);
    let all = &texts.value_data()[start..end];
    // A value begins where a character does: not with a byte that continues one.
    let begins = |offset: &O| all.get(offset.as_usize() - start).is_none_or(|b| b & 0xc0 != 0x80);
    if simdutf8::basic::from_utf8(all).is_ok() && offsets.iter().all(begins) {
        return true;
    }
    // What stands where a value is NULL means nothing.
    let value =
        |row: usize| &texts.value_data()[offsets[row].as_usize()..offsets[row + 1].as_usize()];
    let mut rows = (0..texts.len()).filter(|row| texts.is_valid(*row));
    rows.all(|row| simdutf8::basic::from_utf8(value(row)).is_ok())
}
