// Token files of other programs: text that was tokenized already and comes without its text.
//
//   Megatron-LM   NAME.idx beside NAME.bin. idx: "MMIDIDX\0\0", u64 version 1, u8 dtype, u64 sequences,
//                 u64 documents + 1, i32 lengths, i64 byte offsets into the bin, i64 first sequence of each
//                 document. Either file may be named.
//   llm.c         *.bin: a header of 256 i32 (20240520, 1, tokens: u16 follow; or 20240801, 7, tokens: u32
//                 follow), then tokens. A document begins with a special token: GPT-2's end of text, or its
//                 tokenizer's begin token (Llama 3). The first file of a source begins with it; the others
//                 begin where a file was full, possibly within a document.
//
// A document is the text between two separators, or between the limits that the file gives; separators and
// empty documents are left out. All metadata of the files is checked before a token is used. Little-endian
// machines only. Every refusal is kData and names the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace longhaul::data {

// True if the path names token files: an .idx, a .bin that is one of the two kinds or has an .idx beside it,
// or a folder with such files and no text (a file with such a name but other contents is refused when it is
// read).
bool names_token_files(const std::filesystem::path& path);

struct TokenFile {
  std::filesystem::path path;          // llm.c's file, or Megatron's .bin
  std::filesystem::path index;         // Megatron's .idx; empty: llm.c
  std::string name;                    // relative to the source's root
  int64_t bytes = 0, modified_ns = 0;  // for both files
};
std::vector<TokenFile> token_files(const std::filesystem::path& path);  // in bytewise order of their names

// The token with which the first of llm.c's files begins; none: it has no token, or the files are
// Megatron-LM's.
std::optional<int64_t> first_token(const std::vector<TokenFile>& files);

// Passes the documents of a file in order, cut at each of `separators`, and returns how many separators there
// were. It is an error if an id is not below `vocabulary`.
int64_t read_token_file(const TokenFile& file, int64_t vocabulary, const std::set<int32_t>& separators,
                        const std::function<void(std::span<const int32_t> tokens)>& document);

}  // namespace longhaul::data
