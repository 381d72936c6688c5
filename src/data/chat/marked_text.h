// MarkedText: UTF-8 text in which every byte has a mark that says who wrote it: the template, or the
// conversation. Texts that a template cuts, joins and replaces keep their marks, so that after rendering it
// is still known which bytes may spell a special token (rendered_chat.h). One byte of marks per byte of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace longhaul::data::chat {

enum class Mark : char {
  kTemplate = 2,   // the template's own text, and the special tokens that it is given
  kName = 4,       // the role of a message, and numbers: may stand inside a special token, never at its ends
  kData = 6,       // everything else that a conversation brings
  kContinued = 8,  // kData, of the last message, which the model is to continue
};

class MarkedText {
 public:
  MarkedText() = default;
  MarkedText(std::string bytes, Mark mark)
      : bytes_(std::move(bytes)), marks_(bytes_.size(), static_cast<char>(mark)) {}

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  Mark mark(size_t at) const { return static_cast<Mark>(marks_[at] & ~kWritten); }
  // Whether the byte stands in a {% generation %} block: the assistant wrote it.
  bool written(size_t at) const { return (marks_[at] & kWritten) != 0; }
  void set_written() {
    for (char& mark : marks_) mark = static_cast<char>(mark | kWritten);
  }
  MarkedText part(size_t from, size_t count = std::string::npos) const {
    return {bytes_.substr(from, count), marks_.substr(from, count)};
  }
  void append(const MarkedText& other) {
    bytes_ += other.bytes_;
    marks_ += other.marks_;
  }
  void append(std::string_view bytes, Mark mark) {
    bytes_ += bytes;
    marks_.append(bytes.size(), static_cast<char>(mark));
  }
  // Part of another text.
  void append(const MarkedText& other, size_t from, size_t count) {
    bytes_.append(other.bytes_, from, count);
    marks_.append(other.marks_, from, count);
  }
  void cut_after(size_t size) {
    bytes_.resize(size);
    marks_.resize(size);
  }

 private:
  MarkedText(std::string bytes, std::string marks) : bytes_(std::move(bytes)), marks_(std::move(marks)) {}
  static constexpr char kWritten = 1;  // marks are even
  std::string bytes_, marks_;
};

}  // namespace longhaul::data::chat
