#include "data/corpus/table_file.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/process/signals.h"

#ifdef LONGHAUL_WITH_ARROW
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <parquet/arrow/reader.h>
#endif

namespace longhaul::data {

bool is_table(std::string_view file_name) {
  return file_name.ends_with(".parquet") || file_name.ends_with(".arrow");
}

#ifndef LONGHAUL_WITH_ARROW

bool can_read_tables() { return false; }

[[noreturn]] static void refuse_without_arrow(const std::filesystem::path& path) {
  throw Error(
      {.code = ExitCode::kData,
       .what = "this program was built without Arrow, which reads Parquet and Arrow tables",
       .expected = "text or JSON Lines",
       .found = "a table",
       .where = path.string(),
       .hint = "build with -DLONGHAUL_ARROW=$(scripts/fetch-arrow), or write the table as JSON Lines"});
}

void read_table(const std::filesystem::path& path, const std::string&, int64_t,
                const std::function<void(int64_t, const std::string_view*)>&) {
  refuse_without_arrow(path);
}

void read_table_rows(const std::filesystem::path& path,
                     const std::function<void(int64_t, nlohmann::ordered_json&&)>&) {
  refuse_without_arrow(path);
}

#else

namespace {

constexpr int64_t kRowsAtOnce = 1024;

using NextBatch = std::function<arrow::Result<std::shared_ptr<arrow::RecordBatch> >()>;  // null at the end

[[noreturn]] void refuse_table(const std::filesystem::path& path, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kData,
               .what = "unusable table",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = path.string(),
               .hint = "make or copy it again; data.jsonl_field names the column"});
}

template <class Value>
Value taken(const std::filesystem::path& path, arrow::Result<Value> result) {
  if (!result.ok()) refuse_table(path, "a table that Arrow can read", result.status().message());
  return std::move(result).ValueUnsafe();
}

// column: empty: all of them.
void require_column(const std::filesystem::path& path, const arrow::Schema& schema,
                    const std::string& column) {
  if (column.empty() || schema.GetFieldIndex(column) >= 0) return;
  std::string names;
  for (const auto& field : schema.fields()) names += (names.empty() ? "" : ", ") + field->name();
  refuse_table(path, fmt::format("a column \"{}\", as data.jsonl_field says", column), "columns " + names);
}

NextBatch parquet_batches(const std::filesystem::path& path,
                          const std::shared_ptr<arrow::io::RandomAccessFile>& file,
                          const std::string& column) {
  parquet::arrow::FileReaderBuilder builder;
  if (const arrow::Status status = builder.Open(file); !status.ok())
    refuse_table(path, "a Parquet file", status.message());
  parquet::ArrowReaderProperties properties(/*use_threads=*/false);
  // Otherwise all that was read of the column stays in memory until the file is closed.
  properties.set_pre_buffer(false);
  builder.properties(properties);
  const std::shared_ptr<parquet::arrow::FileReader> reader = taken(path, builder.Build());
  reader->set_batch_size(kRowsAtOnce);
  std::shared_ptr<arrow::Schema> schema;
  if (const arrow::Status status = reader->GetSchema(&schema); !status.ok())
    refuse_table(path, "a Parquet schema", status.message());
  require_column(path, *schema, column);
  std::vector<int> groups(static_cast<size_t>(reader->num_row_groups()));
  for (size_t g = 0; g < groups.size(); ++g) groups[g] = static_cast<int>(g);
  if (column.empty()) {
    const std::shared_ptr<arrow::RecordBatchReader> batches =
        taken(path, reader->GetRecordBatchReader(groups));
    return [reader, batches] { return batches->Next(); };
  }
  const int index = reader->parquet_reader()->metadata()->schema()->ColumnIndex(column);
  if (index < 0) refuse_table(path, fmt::format("a column \"{}\" of strings", column), "one of another kind");
  const std::shared_ptr<arrow::RecordBatchReader> batches =
      taken(path, reader->GetRecordBatchReader(groups, {index}));
  return [reader, batches] { return batches->Next(); };
}

NextBatch arrow_batches(const std::filesystem::path& path,
                        const std::shared_ptr<arrow::io::RandomAccessFile>& file, const std::string& column) {
  const auto beginning = taken(path, file->ReadAt(0, 6));
  if (const arrow::Status status = file->Seek(0); !status.ok())
    refuse_table(path, "a file that can be read", status.message());
  if (beginning->ToString() == "ARROW1") {
    const auto reader = taken(path, arrow::ipc::RecordBatchFileReader::Open(file));
    require_column(path, *reader->schema(), column);
    return [reader, next = 0]() mutable -> arrow::Result<std::shared_ptr<arrow::RecordBatch> > {
      if (next == reader->num_record_batches()) return nullptr;
      return reader->ReadRecordBatch(next++);
    };
  }
  const std::shared_ptr<arrow::RecordBatchReader> reader =
      taken(path, arrow::ipc::RecordBatchStreamReader::Open(file));
  require_column(path, *reader->schema(), column);
  return [reader] { return reader->Next(); };
}

// Calls give(index, text or null) for every row of the column.
template <class Strings>
void each_string(const arrow::Array& column,
                 const std::function<void(int64_t, const std::string_view*)>& give) {
  const auto& strings = static_cast<const Strings&>(column);
  for (int64_t i = 0; i < strings.length(); ++i) {
    if (strings.IsNull(i)) {
      give(i, nullptr);
    } else {
      const std::string_view text = strings.GetView(i);
      give(i, &text);
    }
  }
}

void each_row(const std::filesystem::path& path, const arrow::Array& column,
              const std::function<void(int64_t, const std::string_view*)>& give) {
  switch (column.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return each_string<arrow::BinaryArray>(column, give);
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return each_string<arrow::LargeBinaryArray>(column, give);
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return each_string<arrow::BinaryViewArray>(column, give);
    default:
      refuse_table(path, "a column of strings", "one of " + column.type()->ToString());
  }
}

using Json = nlohmann::ordered_json;

Json json_of_scalar(const arrow::Scalar& scalar);

Json json_of_list(const arrow::Array& items) {
  Json list = Json::array();
  for (int64_t i = 0; i < items.length(); ++i)
    list.push_back(json_of_scalar(*items.GetScalar(i).ValueOrDie()));
  return list;
}

Json json_of_struct(const arrow::StructScalar& fields) {
  Json object = Json::object();
  for (int f = 0; f < fields.type->num_fields(); ++f) {
    const arrow::Scalar& value = *fields.value[static_cast<size_t>(f)];
    if (value.is_valid) object[fields.type->field(f)->name()] = json_of_scalar(value);
  }
  return object;
}

Json json_of_scalar(const arrow::Scalar& scalar) {
  if (!scalar.is_valid) return nullptr;
  switch (scalar.type->id()) {
    case arrow::Type::BOOL:
      return static_cast<const arrow::BooleanScalar&>(scalar).value;
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
    case arrow::Type::FIXED_SIZE_LIST:
      return json_of_list(*static_cast<const arrow::BaseListScalar&>(scalar).value);
    case arrow::Type::STRUCT:
      return json_of_struct(static_cast<const arrow::StructScalar&>(scalar));
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::STRING_VIEW:
      return static_cast<const arrow::BaseBinaryScalar&>(scalar).value->ToString();
    default:
      break;
  }
  if (arrow::is_integer(scalar.type->id()) || arrow::is_floating(scalar.type->id())) {
    const auto type = arrow::is_integer(scalar.type->id()) ? arrow::int64() : arrow::float64();
    const auto wide = scalar.CastTo(type);
    if (wide.ok() && arrow::is_integer(scalar.type->id()))
      return static_cast<const arrow::Int64Scalar&>(**wide).value;
    if (wide.ok()) return static_cast<const arrow::DoubleScalar&>(**wide).value;
  }
  return scalar.ToString();
}

NextBatch batches_of(const std::filesystem::path& path, const std::string& column) {
  const std::shared_ptr<arrow::io::RandomAccessFile> file =
      taken(path, arrow::io::ReadableFile::Open(path.string()));
  return path.extension() == ".parquet" ? parquet_batches(path, file, column)
                                        : arrow_batches(path, file, column);
}

}  // namespace

bool can_read_tables() { return true; }

void read_table_rows(const std::filesystem::path& path, const std::function<void(int64_t, Json&&)>& give) {
  const NextBatch next = batches_of(path, "");
  int64_t done = 0;
  while (const std::shared_ptr<arrow::RecordBatch> batch = taken(path, next())) {
    throw_if_stop_requested("reading conversations");
    if (const arrow::Status status = batch->ValidateFull(); !status.ok())
      refuse_table(path, "batches that are whole", status.message());
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      Json fields = Json::object();
      for (int c = 0; c < batch->num_columns(); ++c) {
        const auto value = taken(path, batch->column(c)->GetScalar(row));
        if (value->is_valid) fields[batch->column_name(c)] = json_of_scalar(*value);
      }
      give(done + row + 1, std::move(fields));
    }
    done += batch->num_rows();
  }
}

void read_table(const std::filesystem::path& path, const std::string& column, int64_t after,
                const std::function<void(int64_t, const std::string_view*)>& give) {
  const NextBatch next = batches_of(path, column);
  int64_t done = 0;
  while (const std::shared_ptr<arrow::RecordBatch> batch = taken(path, next())) {
    throw_if_stop_requested("reading the corpus");
    if (const arrow::Status status = batch->ValidateFull(); !status.ok())
      refuse_table(path, "batches that are whole", status.message());
    const std::shared_ptr<arrow::Array> strings = batch->GetColumnByName(column);
    if (strings == nullptr) refuse_table(path, fmt::format("one column \"{}\"", column), "none, or several");
    each_row(path, *strings, [&](int64_t row, const std::string_view* text) {
      if (done + row + 1 > after) give(done + row + 1, text);
    });
    done += batch->num_rows();
  }
}

#endif

}  // namespace longhaul::data
