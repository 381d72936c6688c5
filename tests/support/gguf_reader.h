// A reader of GGUF files for tests, written from the format's description and sharing nothing with the
// writer.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace longhaul::testing {

struct GgufRead {
  struct Tensor {
    std::vector<uint64_t> sizes;  // the fastest first
    uint32_t type = 0;
    uint64_t offset = 0;  // in the file
  };
  std::map<std::string, uint64_t> integers;
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> texts;
  std::map<std::string, std::vector<std::string>> lists;
  std::map<std::string, std::vector<double>> number_lists;
  std::map<std::string, Tensor> tensors;
  std::string file;

  GgufRead() = default;
  explicit GgufRead(std::string bytes) : file(std::move(bytes)) {
    if (raw(4) != "GGUF" || number<uint32_t>() != 3) throw std::runtime_error("no GGUF of version 3");
    const auto tensor_count = number<uint64_t>(), field_count = number<uint64_t>();
    for (uint64_t i = 0; i < field_count; ++i) field(text());
    for (uint64_t i = 0; i < tensor_count; ++i) {
      const std::string name = text();
      Tensor tensor;
      const auto rank = number<uint32_t>();
      for (uint32_t d = 0; d < rank; ++d) tensor.sizes.push_back(number<uint64_t>());
      tensor.type = number<uint32_t>();
      tensor.offset = number<uint64_t>();
      if (tensor.offset % 32 != 0) throw std::runtime_error(name + " is not aligned");
      if (!tensors.emplace(name, tensor).second) throw std::runtime_error(name + " is there twice");
    }
    const uint64_t data = (at_ + 31) / 32 * 32;
    for (auto& [name, tensor] : tensors) tensor.offset += data;
  }

  // The numbers of a tensor, row-major.
  std::vector<double> values(const std::string& name) const {
    const Tensor& tensor = tensors.at(name);
    uint64_t count = 1;
    for (const uint64_t size : tensor.sizes) count *= size;
    std::vector<double> made(count);
    for (uint64_t i = 0; i < count; ++i) {
      if (tensor.type == 0) {
        made[i] = at<float>(tensor.offset + 4 * i);
      } else if (tensor.type == 1) {
        made[i] = half(at<uint16_t>(tensor.offset + 2 * i));
      } else if (tensor.type == 8) {
        const uint64_t block = tensor.offset + i / 32 * 34;
        made[i] = half(at<uint16_t>(block)) * at<int8_t>(block + 2 + i % 32);
      } else {
        throw std::runtime_error("type of " + name);
      }
    }
    return made;
  }

 private:
  static double half(uint16_t bits) {
    const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const double size =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    return (bits & 0x8000) != 0 ? -size : size;
  }
  template <class Number>
  Number at(uint64_t offset) const {
    Number value;
    if (offset + sizeof value > file.size()) throw std::runtime_error("the file ends early");
    std::memcpy(&value, file.data() + offset, sizeof value);
    return value;
  }
  template <class Number>
  Number number() {
    const Number value = at<Number>(at_);
    at_ += sizeof value;
    return value;
  }
  std::string raw(uint64_t size) {
    if (at_ + size > file.size()) throw std::runtime_error("the file ends early");
    at_ += size;
    return file.substr(at_ - size, size);
  }
  std::string text() { return raw(number<uint64_t>()); }
  void field(const std::string& name) {
    const auto type = number<uint32_t>();
    if (type == 4) {
      integers[name] = number<uint32_t>();
    } else if (type == 6) {
      numbers[name] = number<float>();
    } else if (type == 7) {
      integers[name] = number<uint8_t>();
    } else if (type == 8) {
      texts[name] = text();
    } else if (type == 9) {
      const auto item = number<uint32_t>();
      const auto count = number<uint64_t>();
      for (uint64_t i = 0; i < count; ++i) {
        if (item == 8) {
          lists[name].push_back(text());
        } else if (item == 5) {
          number_lists[name].push_back(number<int32_t>());
        } else if (item == 6) {
          number_lists[name].push_back(number<float>());
        } else {
          throw std::runtime_error("items of " + name);
        }
      }
    } else {
      throw std::runtime_error("type of " + name);
    }
  }
  uint64_t at_ = 0;
};

}  // namespace longhaul::testing
