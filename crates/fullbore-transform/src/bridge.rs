//! Arrays between this crate's version of Arrow and the engine's, without a copy: both have the C Data Interface,
//! whose layout does not depend on the version.

use std::mem::transmute;

use arrow_array::ffi::{FFI_ArrowArray, from_ffi, to_ffi};
use arrow_array::{Array, ArrayRef, make_array};
use arrow_schema::{ArrowError, DataType};
use engine_arrow::array as engine;
use engine_arrow::array::ffi as engine_ffi;
use engine_arrow::datatypes::DataType as EngineType;

use crate::words::Words;

/// An array as the engine has it.
pub fn given(array: &dyn Array) -> Result<engine::ArrayRef, Words> {
    let (array, schema) = to_ffi(&array.to_data()).map_err(words)?;
    // SAFETY: both structs are the one of the C Data Interface, of one size and layout whatever the version, and own
    // what they point to until their release callback is called, which moves with them.
    let (array, schema) = unsafe {
        (
            transmute::<FFI_ArrowArray, engine_ffi::FFI_ArrowArray>(array),
            transmute::<arrow_schema::ffi::FFI_ArrowSchema, engine_ffi::FFI_ArrowSchema>(schema),
        )
    };
    // SAFETY: the array was exported a moment ago, by Arrow itself, with this schema.
    let data = unsafe { engine_ffi::from_ffi(array, &schema) };
    data.map(engine::make_array).map_err(|error| error.to_string())
}

/// An array of the engine's.
pub fn taken(array: &dyn engine::Array) -> Result<ArrayRef, Words> {
    let exported = engine_ffi::to_ffi(&array.to_data());
    let (array, schema) = exported.map_err(|error| error.to_string())?;
    // SAFETY: as in `given`, the other way.
    let (array, schema) = unsafe {
        (
            transmute::<engine_ffi::FFI_ArrowArray, FFI_ArrowArray>(array),
            transmute::<engine_ffi::FFI_ArrowSchema, arrow_schema::ffi::FFI_ArrowSchema>(schema),
        )
    };
    // SAFETY: as in `given`, the other way.
    let data = unsafe { from_ffi(array, &schema) };
    data.map(make_array).map_err(words)
}

/// A type as the engine has it.
pub fn given_type(data_type: &DataType) -> Result<EngineType, Words> {
    let empty = arrow_array::new_empty_array(data_type);
    given(&empty).map(|array| array.data_type().clone())
}

/// A type of the engine's.
pub fn taken_type(data_type: &EngineType) -> Result<DataType, Words> {
    let empty = engine::new_empty_array(data_type);
    taken(&empty).map(|array| array.data_type().clone())
}

fn words(error: ArrowError) -> Words {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Decimal128Array, Int64Array, StringArray, TimestampMicrosecondArray};

    use super::*;

    #[test]
    fn arrays_come_back_as_they_went() {
        let decimals = Decimal128Array::from(vec![Some(-12345), None, Some(7)]);
        let arrays: [ArrayRef; 4] = [
            Arc::new(StringArray::from(vec![Some("ä"), None, Some("")])),
            Arc::new(Int64Array::from(vec![1, -1, i64::MAX])),
            Arc::new(decimals.with_precision_and_scale(20, 3).unwrap()),
            Arc::new(TimestampMicrosecondArray::from(vec![0, 1, 2]).with_timezone("UTC")),
        ];
        for array in arrays {
            for (start, length) in [(0, 3), (1, 2), (3, 0)] {
                let part = array.slice(start, length);
                let back = taken(&given(&part).unwrap()).unwrap();
                assert_eq!(&back, &part);
            }
        }
    }
}
