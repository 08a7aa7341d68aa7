//! Arrow data from Python objects, by the Arrow PyCapsule interface.
//!
//! https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use fullbore_read::columnar::data::{ArrowData, Registered};
use pyo3::exceptions::{PyStopIteration, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

/// Arrow data that a load can name as its source, as long as this lives.
#[pyclass(frozen)]
pub struct Source {
    registered: Registered,
    /// Whether it can be read more than once.
    #[pyo3(get)]
    is_table: bool,
}

#[pymethods]
impl Source {
    /// Takes the data of an object with `__arrow_c_stream__`, or else of an iterator of record batches,
    /// tables or frames.
    /// `is_table`: all of it is in memory and is taken at once, without a copy.
    #[new]
    fn new(
        py: Python<'_>,
        name: &str,
        object: &Bound<'_, PyAny>,
        is_table: bool,
    ) -> PyResult<Self> {
        let reader = match object.hasattr("__arrow_c_stream__")? {
            true => stream_of(object)?,
            false => Box::new(Batches::of(object)?) as Box<dyn RecordBatchReader + Send>,
        };
        let data = match is_table {
            false => ArrowData::stream(reader),
            true => py.detach(|| whole(reader)).map_err(|error| unreadable(&error))?,
        };
        let mut drawn = [0; 4];
        getrandom::fill(&mut drawn).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let id = format!("{:08x}", u32::from_ne_bytes(drawn));
        Ok(Self { registered: Registered::new(name, &id, data), is_table })
    }

    /// What names it in a job.
    #[getter]
    fn uri(&self) -> &str {
        self.registered.uri()
    }
}

fn whole(reader: Box<dyn RecordBatchReader + Send>) -> Result<ArrowData, ArrowError> {
    let schema = reader.schema();
    Ok(ArrowData::table(&schema, reader.collect::<Result<Vec<_>, _>>()?))
}

/// The name of an object's type.
fn kind_of(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

fn unreadable(error: &ArrowError) -> PyErr {
    PyValueError::new_err(format!("the Arrow data can't be read: {error}"))
}

/// The stream of an object that can be exported as one.
fn stream_of(object: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    let capsule = object.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    // SAFETY: by the interface, a capsule of this name holds such a struct, which is moved out of it:
    // from_raw leaves one that is released already, which is what the capsule's destructor looks for.
    let reader = unsafe {
        RecordBatchStreamReader::from_raw(stream.cast::<FFI_ArrowArrayStream>().as_ptr())
    };
    Ok(Box::new(reader.map_err(|error| unreadable(&error))?))
}

/// An iterator of record batches, or of tables and frames.
struct Batches {
    iterator: Py<PyAny>,
    schema: SchemaRef,
    /// What was taken of it and is not given yet: one item may hold several batches.
    taken: VecDeque<RecordBatch>,
}

impl Batches {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let iterator = object.try_iter().map_err(|_| {
            PyTypeError::new_err(format!(
                "a source is a path, several paths, an object with __arrow_c_stream__, or an \
                 iterator of record batches, not {}",
                kind_of(object)
            ))
        })?;
        let Some((schema, taken)) = next_of(iterator.as_any())? else {
            let words = "the iterator gave no batch, so its columns are unknown";
            return Err(PyValueError::new_err(words));
        };
        Ok(Self { iterator: iterator.into_any().unbind(), schema, taken })
    }

    /// Takes the next item; false at the end.
    fn take(&mut self) -> Result<bool, ArrowError> {
        // None once the interpreter ends: whoever waited for the load has given up.
        let next = Python::try_attach(|py| next_of(self.iterator.bind(py)));
        let next = next.ok_or_else(|| ArrowError::CDataInterface("Python has ended".into()))?;
        match next.map_err(|error| ArrowError::ExternalError(error.into()))? {
            None => Ok(false),
            Some((schema, batches)) if schema.fields() == self.schema.fields() => {
                self.taken = batches;
                Ok(true)
            }
            Some((schema, _)) => Err(ArrowError::SchemaError(format!(
                "a batch has other columns than the first one: {schema}"
            ))),
        }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.taken.pop_front() {
                return Some(Ok(batch));
            }
            match self.take() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// The batches of an iterator's next item, and their schema; `None` at the end.
fn next_of(iterator: &Bound<'_, PyAny>) -> PyResult<Option<(SchemaRef, VecDeque<RecordBatch>)>> {
    let item = match iterator.call_method0("__next__") {
        Err(error) if error.is_instance_of::<PyStopIteration>(iterator.py()) => return Ok(None),
        item => item?,
    };
    if item.hasattr("__arrow_c_array__")? {
        let batch = batch_of(&item)?;
        return Ok(Some((batch.schema(), VecDeque::from([batch]))));
    }
    if !item.hasattr("__arrow_c_stream__")? {
        let kind = kind_of(&item);
        return Err(PyTypeError::new_err(format!(
            "{kind} is no record batch: it has no __arrow_c_array__"
        )));
    }
    let reader = stream_of(&item)?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<_, _>>().map_err(|error| unreadable(&error))?;
    Ok(Some((schema, batches)))
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// The batch of an object that can be exported as one.
fn batch_of(object: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let exported = object.call_method0("__arrow_c_array__")?.cast_into::<PyTuple>()?;
    let (schema, array) = exported.extract::<(Bound<'_, PyCapsule>, Bound<'_, PyCapsule>)>()?;
    let schema = schema.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<FFI_ArrowArray>();
    // SAFETY: by the interface, capsules of these names hold such structs. The array is moved out, and one
    // that is released already is left; the schema stays the capsule's.
    let data = unsafe { from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
    let data = data.map_err(|error| unreadable(&error))?;
    let fields = match data.data_type() {
        arrow_schema::DataType::Struct(fields) => fields.clone(),
        other => {
            return Err(PyTypeError::new_err(format!("a batch has columns, this is {other}")));
        }
    };
    let rows = data.len();
    let (_, columns, nulls) = StructArray::from(data).into_parts();
    if nulls.is_some_and(|nulls| nulls.null_count() > 0) {
        return Err(PyValueError::new_err("a batch has rows that are NULL as a whole"));
    }
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|error| unreadable(&error))
}
