#include "layout/split.h"

#include "base/error.h"

namespace longhaul::layout {

Range even_part(int64_t total, int64_t parts, int64_t index) {
  LONGHAUL_ASSERT(total >= 0 && parts >= 1 && index >= 0 && index < parts, "total {} parts {} index {}",
                  total, parts, index);
  const int64_t length = total / parts;
  const int64_t longer = total % parts;  // the first parts take one more
  return {index * length + (index < longer ? index : longer), length + (index < longer ? 1 : 0)};
}

Range even_part(Range whole, int64_t parts, int64_t index, int64_t unit) {
  LONGHAUL_ASSERT(unit >= 1 && whole.length % unit == 0, "length {} unit {}", whole.length, unit);
  const Range units = even_part(whole.length / unit, parts, index);
  return {whole.begin + units.begin * unit, units.length * unit};
}

int64_t even_owner(int64_t total, int64_t parts, int64_t element) {
  LONGHAUL_ASSERT(parts >= 1 && element >= 0 && element < total, "total {} parts {} element {}", total, parts,
                  element);
  const int64_t length = total / parts;
  const int64_t longer = total % parts;
  const int64_t in_longer = longer * (length + 1);
  return element < in_longer ? element / (length + 1) : longer + (element - in_longer) / length;
}

}  // namespace longhaul::layout
