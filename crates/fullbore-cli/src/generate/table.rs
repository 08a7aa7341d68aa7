//! The tables of TPC-H: how large they are, and their rows as text.

use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};

use super::text::{line_items, lines};

/// A table of TPC-H. The order is that of size, since the longest work should begin first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
#[value(rename_all = "lower")]
#[allow(missing_docs)]
pub enum Table {
    LineItem,
    Orders,
    PartSupp,
    Part,
    Customer,
    Supplier,
    Nation,
    Region,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::LineItem,
        Self::Orders,
        Self::PartSupp,
        Self::Part,
        Self::Customer,
        Self::Supplier,
        Self::Nation,
        Self::Region,
    ];

    /// The name of the table and its files.
    pub fn name(self) -> &'static str {
        match self {
            Self::LineItem => "lineitem",
            Self::Orders => "orders",
            Self::PartSupp => "partsupp",
            Self::Part => "part",
            Self::Customer => "customer",
            Self::Supplier => "supplier",
            Self::Nation => "nation",
            Self::Region => "region",
        }
    }

    /// Whether it grows with the scale; the others are one small file at every scale.
    pub fn is_split(self) -> bool {
        !matches!(self, Self::Nation | Self::Region)
    }

    /// How many rows it can be cut between, and about how many bytes of text each of them makes.
    /// Line items are cut between orders, the suppliers of parts between parts.
    pub fn units(self, scale: f64) -> (u64, u64) {
        let (units, bytes) = match self {
            Self::LineItem => (OrderGenerator::calculate_row_count(scale, 1, 1), 500),
            Self::Orders => (OrderGenerator::calculate_row_count(scale, 1, 1), 113),
            Self::PartSupp => (PartGenerator::calculate_row_count(scale, 1, 1), 575),
            Self::Part => (PartGenerator::calculate_row_count(scale, 1, 1), 120),
            Self::Customer => (CustomerGenerator::calculate_row_count(scale, 1, 1), 160),
            Self::Supplier => (SupplierGenerator::calculate_row_count(scale, 1, 1), 140),
            Self::Nation => (25, 90),
            Self::Region => (5, 80),
        };
        (units.unsigned_abs(), bytes)
    }

    /// Appends part `part` (from 1) of `part_count` to the buffer, and says how many rows.
    pub fn write_part(self, scale: f64, part: i32, part_count: i32, buffer: &mut Vec<u8>) -> u64 {
        match self {
            Self::LineItem => {
                line_items(LineItemGenerator::new(scale, part, part_count).iter(), buffer)
            }
            Self::Orders => lines(OrderGenerator::new(scale, part, part_count).iter(), buffer),
            Self::PartSupp => lines(PartSuppGenerator::new(scale, part, part_count).iter(), buffer),
            Self::Part => lines(PartGenerator::new(scale, part, part_count).iter(), buffer),
            Self::Customer => lines(CustomerGenerator::new(scale, part, part_count).iter(), buffer),
            Self::Supplier => lines(SupplierGenerator::new(scale, part, part_count).iter(), buffer),
            Self::Nation => lines(NationGenerator::new(scale, part, part_count).iter(), buffer),
            Self::Region => lines(RegionGenerator::new(scale, part, part_count).iter(), buffer),
        }
    }
}
