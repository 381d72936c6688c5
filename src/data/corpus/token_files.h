// Token files of others: text that was made tokens already, and comes without its text.
//
//   Megatron-LM   NAME.idx beside NAME.bin. idx: "MMIDIDX\0\0", u64 version 1, u8 dtype, u64 sequences, u64 documents + 1, i32 lengths, i64 byte
//                 offsets into the bin, i64 first sequence of each document. Named by either file.
//   llm.c         *.bin: a header of 256 i32 (20240520, 1, tokens: u16 follow; or 20240801, 7, tokens: u32 follow), then tokens. A document
//                 begins with a special token: GPT-2's end of text, or what its tokenizer calls the beginning of one (Llama 3). The first
//                 file of a source begins with it; the others begin where a file was full, within a document perhaps.
//
// A document is what lies between two separators, or the ends of what the file calls one; separators are left out, and empty documents. Everything
// that the files say of themselves is checked before a token is used. Little-endian machines. Every refusal is kData and names the file.
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

// True where the path names token files: an .idx, a .bin that is one of the two kinds or has an .idx beside it, or a folder in which such files
// lie and no text (a name that ends so but holds something else is refused when it is read).
bool names_token_files(const std::filesystem::path& path);

struct TokenFile {
  std::filesystem::path path;          // llm.c's, or Megatron's .bin
  std::filesystem::path index;         // Megatron's .idx; empty: llm.c
  std::string name;                    // relative to the source's root
  int64_t bytes = 0, modified_ns = 0;  // of both files
};
std::vector<TokenFile> token_files(const std::filesystem::path& path);  // in bytewise order of their names

// What the first of llm.c's files begins with; none: it has no token, or the files are Megatron-LM's.
std::optional<int64_t> first_token(const std::vector<TokenFile>& files);

// Gives out the documents of a file in order, cut at each of `separators`; returns how many of those it met. `vocabulary`: ids are below
// it, or it is an error.
int64_t read_token_file(const TokenFile& file, int64_t vocabulary, const std::set<int32_t>& separators,
                        const std::function<void(std::span<const int32_t> tokens)>& document);

}  // namespace longhaul::data
