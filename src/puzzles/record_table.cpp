#include "puzzles/record_table.h"

#include <vector>

#include "base/error.h"
#include "base/process/signals.h"

#ifdef LONGHAUL_WITH_ARROW
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#endif

namespace longhaul::puzzles {

#ifndef LONGHAUL_WITH_ARROW

namespace {
[[noreturn]] void refuse_without_arrow(const std::string& where) {
  throw Error({.code = ExitCode::kUsage,
               .what = "this program was built without Arrow, which reads and writes Parquet",
               .expected = "JSON Lines: FILE.jsonl",
               .found = "a Parquet file",
               .where = where,
               .hint = "build with -DLONGHAUL_ARROW=$(scripts/fetch-arrow), or use JSON Lines"});
}
}  // namespace

struct TableWriter::State {};

bool can_use_tables() { return false; }
void each_table_row(const std::filesystem::path& path,
                    const std::function<void(int64_t, const nlohmann::json&)>&) {
  refuse_without_arrow(path.string());
}
TableWriter::TableWriter(File& file) { refuse_without_arrow(file.path().string()); }
TableWriter::~TableWriter() = default;
void TableWriter::write(const nlohmann::ordered_json&) {}
void TableWriter::finish() {}

#else

namespace {

constexpr int64_t kRowsOfABatch = 1024;

[[noreturn]] void refuse_rows(const std::filesystem::path& path, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kData,
               .what = "unusable table of puzzles",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = path.string(),
               .hint = "longhaul puzzles generate … --out FILE.parquet makes such files"});
}

template <class Value>
Value value_or_refuse(const std::filesystem::path& path, arrow::Result<Value> result) {
  if (!result.ok()) refuse_rows(path, "a table that Arrow can read", result.status().message());
  return std::move(result).ValueUnsafe();
}

nlohmann::json cell_of(const arrow::Array& array, int64_t row);

template <class Lists>
nlohmann::json list_of(const arrow::Array& array, int64_t row) {
  const auto& lists = static_cast<const Lists&>(array);
  nlohmann::json list = nlohmann::json::array();
  for (int64_t i = lists.value_offset(row); i < lists.value_offset(row + 1); ++i)
    list.push_back(cell_of(*lists.values(), i));
  return list;
}

template <class Texts>
nlohmann::json text_of(const arrow::Array& array, int64_t row) {
  return std::string(static_cast<const Texts&>(array).GetView(row));
}

template <class Numbers>
nlohmann::json number_of(const arrow::Array& array, int64_t row) {
  return static_cast<const Numbers&>(array).Value(row);
}

nlohmann::json structure_of(const arrow::Array& array, int64_t row) {
  const auto& structure = static_cast<const arrow::StructArray&>(array);
  nlohmann::json object = nlohmann::json::object();
  for (int i = 0; i < structure.num_fields(); ++i) {
    nlohmann::json cell = cell_of(*structure.field(i), row);
    // nothing and a missing field are one
    if (!cell.is_null()) object[structure.type()->field(i)->name()] = std::move(cell);
  }
  return object;
}

// Null: there is no value, or it is of a kind that no column of a puzzle has.
nlohmann::json cell_of(const arrow::Array& array, int64_t row) {
  if (array.IsNull(row)) return nullptr;
  switch (array.type_id()) {
    case arrow::Type::STRING:
      return text_of<arrow::StringArray>(array, row);
    case arrow::Type::LARGE_STRING:
      return text_of<arrow::LargeStringArray>(array, row);
    case arrow::Type::STRING_VIEW:
      return text_of<arrow::StringViewArray>(array, row);
    case arrow::Type::INT64:
      return number_of<arrow::Int64Array>(array, row);
    case arrow::Type::INT32:
      return number_of<arrow::Int32Array>(array, row);
    case arrow::Type::UINT64:
      return number_of<arrow::UInt64Array>(array, row);
    case arrow::Type::DOUBLE:
      return number_of<arrow::DoubleArray>(array, row);
    case arrow::Type::BOOL:
      return number_of<arrow::BooleanArray>(array, row);
    case arrow::Type::LIST:
      return list_of<arrow::ListArray>(array, row);
    case arrow::Type::LARGE_LIST:
      return list_of<arrow::LargeListArray>(array, row);
    case arrow::Type::STRUCT:
      return structure_of(array, row);
    case arrow::Type::DICTIONARY: {
      const auto& words = static_cast<const arrow::DictionaryArray&>(array);
      return cell_of(*words.dictionary(), words.GetValueIndex(row));
    }
    default:
      return nullptr;
  }
}

void require_columns(const std::filesystem::path& path, const arrow::Schema& schema) {
  for (const char* name : {"data_source", "extra_info"}) {
    if (schema.GetFieldIndex(name) >= 0) continue;
    std::string names;
    for (const auto& field : schema.fields()) names += (names.empty() ? "" : ", ") + field->name();
    refuse_rows(
        path,
        fmt::format("columns data_source and extra_info, each once (of \"{}\" there is none, or several)",
                    name),
        "columns " + names);
  }
}

// The columns as Arrow has them. What is an object of any keys (knobs) is a text of JSON there.
std::shared_ptr<arrow::Schema> schema_of_rows() {
  using arrow::field;
  const auto text = arrow::utf8(), number = arrow::int64(), natural = arrow::uint64();
  return arrow::schema(
      {field("data_source", text),
       field("prompt", arrow::list(arrow::struct_({field("role", text), field("content", text)}))),
       field("ability", text),
       field("reward_model", arrow::struct_({field("answer", text), field("ground_truth", text),
                                             field("solution", text), field("style", text)})),
       field("extra_info", arrow::struct_({field("game_data_str", text), field("index", number)})),
       field("task_version", number), field("level", number), field("knobs", text), field("seed", natural),
       field("index", natural), field("lang", text), field("template", number), field("solution", text),
       field("n_solutions", number), field("payload_hash", text)});
}

void require_ok(const arrow::Status& status) {
  // the file's own errors come as such: FileStream
  LONGHAUL_ASSERT(status.ok(), "Arrow: {}", status.message());
}

// A value that has another kind than the column is an empty cell, as a missing one: public rows have texts
// where ours have none, and the reverse.
void append(arrow::ArrayBuilder& builder, const nlohmann::ordered_json& value) {
  switch (builder.type()->id()) {
    case arrow::Type::STRING:
      if (value.is_null()) return require_ok(builder.AppendNull());
      return require_ok(static_cast<arrow::StringBuilder&>(builder).Append(
          value.is_string() ? value.get<std::string>() : value.dump()));
    case arrow::Type::INT64:
      if (!value.is_number_integer()) return require_ok(builder.AppendNull());
      return require_ok(static_cast<arrow::Int64Builder&>(builder).Append(value.get<int64_t>()));
    case arrow::Type::UINT64:
      if (!value.is_number_integer()) return require_ok(builder.AppendNull());
      return require_ok(static_cast<arrow::UInt64Builder&>(builder).Append(value.get<uint64_t>()));
    case arrow::Type::LIST: {
      if (!value.is_array()) return require_ok(builder.AppendNull());
      auto& list = static_cast<arrow::ListBuilder&>(builder);
      require_ok(list.Append());
      for (const auto& each : value) append(*list.value_builder(), each);
      return;
    }
    default: {
      if (!value.is_object()) return require_ok(builder.AppendNull());
      auto& structure = static_cast<arrow::StructBuilder&>(builder);
      require_ok(structure.Append());
      for (int i = 0; i < structure.num_fields(); ++i) {
        const std::string& name = structure.type()->field(i)->name();
        append(*structure.field_builder(i), value.contains(name) ? value[name] : nlohmann::ordered_json());
      }
    }
  }
}

// Arrow writes into the file of ours, so that a full disk is the same error as everywhere. It is thrown when
// Arrow has returned, whose code it must not cross.
class FileStream : public arrow::io::OutputStream {
 public:
  explicit FileStream(File& file) : file_(file) { set_mode(arrow::io::FileMode::WRITE); }
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Write(const void* data, int64_t bytes) override {
    try {
      file_.write(std::span(static_cast<const std::byte*>(data), static_cast<size_t>(bytes)));
    } catch (...) {
      failure_ = std::current_exception();
      return arrow::Status::IOError("the file cannot be written");
    }
    position_ += bytes;
    return arrow::Status::OK();
  }
  using arrow::io::OutputStream::Write;
  void check(const arrow::Status& status) const {
    if (failure_) std::rethrow_exception(failure_);
    require_ok(status);
  }

 private:
  File& file_;
  std::exception_ptr failure_;
  int64_t position_ = 0;
  bool closed_ = false;
};

}  // namespace

bool can_use_tables() { return true; }

void each_table_row(const std::filesystem::path& path,
                    const std::function<void(int64_t, const nlohmann::json&)>& give) {
  const std::shared_ptr<arrow::io::RandomAccessFile> file =
      value_or_refuse(path, arrow::io::ReadableFile::Open(path.string()));
  parquet::arrow::FileReaderBuilder builder;
  if (const arrow::Status status = builder.Open(file); !status.ok())
    refuse_rows(path, "a Parquet file", status.message());
  builder.properties(parquet::ArrowReaderProperties(/*use_threads=*/false));
  const std::shared_ptr<parquet::arrow::FileReader> reader = value_or_refuse(path, builder.Build());
  reader->set_batch_size(kRowsOfABatch);
  std::shared_ptr<arrow::Schema> schema;
  if (const arrow::Status status = reader->GetSchema(&schema); !status.ok())
    refuse_rows(path, "a Parquet schema", status.message());
  require_columns(path, *schema);
  const std::shared_ptr<arrow::RecordBatchReader> batches =
      value_or_refuse(path, reader->GetRecordBatchReader());
  int64_t row = 0;
  while (const std::shared_ptr<arrow::RecordBatch> batch = value_or_refuse(path, batches->Next())) {
    throw_if_stop_requested("reading puzzles");
    if (const arrow::Status status = batch->ValidateFull(); !status.ok())
      refuse_rows(path, "batches that are whole", status.message());
    for (int64_t i = 0; i < batch->num_rows(); ++i) {
      nlohmann::json columns = nlohmann::json::object();
      for (int c = 0; c < batch->num_columns(); ++c)
        columns[batch->column_name(c)] = cell_of(*batch->column(c), i);
      give(++row, columns);
    }
  }
}

struct TableWriter::State {
  std::shared_ptr<arrow::Schema> schema = schema_of_rows();
  std::shared_ptr<FileStream> stream;
  std::unique_ptr<parquet::arrow::FileWriter> writer;
  std::vector<std::unique_ptr<arrow::ArrayBuilder> > builders;
  int64_t rows = 0;  // in the builders

  void flush() {
    if (rows == 0) return;
    std::vector<std::shared_ptr<arrow::Array> > arrays(builders.size());
    for (size_t i = 0; i < builders.size(); ++i) require_ok(builders[i]->Finish(&arrays[i]));
    stream->check(writer->WriteTable(*arrow::Table::Make(schema, arrays, rows), rows));
    rows = 0;
  }
};

TableWriter::TableWriter(File& file) : state_(std::make_unique<State>()) {
  state_->stream = std::make_shared<FileStream>(file);
  const auto properties = parquet::WriterProperties::Builder()
                              .compression(parquet::Compression::ZSTD)
                              ->created_by("longhaul puzzles")
                              ->build();
  auto writer = parquet::arrow::FileWriter::Open(*state_->schema, arrow::default_memory_pool(),
                                                 state_->stream, properties);
  state_->stream->check(writer.status());
  state_->writer = std::move(writer).ValueUnsafe();
  for (const auto& field : state_->schema->fields()) {
    auto builder = arrow::MakeBuilder(field->type());
    require_ok(builder.status());
    state_->builders.push_back(std::move(builder).ValueUnsafe());
  }
}

TableWriter::~TableWriter() = default;

void TableWriter::write(const nlohmann::ordered_json& columns) {
  for (size_t i = 0; i < state_->builders.size(); ++i) {
    const std::string& name = state_->schema->field(static_cast<int>(i))->name();
    append(*state_->builders[i], columns.contains(name) ? columns[name] : nlohmann::ordered_json());
  }
  if (++state_->rows == kRowsOfABatch) state_->flush();
}

void TableWriter::finish() {
  state_->flush();
  state_->stream->check(state_->writer->Close());
}

#endif

}  // namespace longhaul::puzzles
