// SPDX-License-Identifier: BSD-3-Clause
// A C++ program with `ws` directives in templates, lambdas and members, over iterators, and with
// classes as reduction variables.
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#define EACH(i, n) _Pragma("ws for") for (std::size_t i = 0; i < (n); ++i)

const char* const raw = R"(
#pragma ws nonsense
)";

template <class T>
T total(const std::vector<T>& values) {
  T sum = T();
#pragma ws for reduction(+ : sum) schedule(dynamic, values.size() / 10)
  for (auto it = values.begin(); it < values.end(); ++it) sum += *it;
  return sum;
}

template <int Size>
int grid() {
  int cells = 0;
#pragma ws for collapse(2) reduction(+ : cells)
  for (int i = 0; i < Size; ++i)
    for (int j = 0; j < Size; ++j) cells += 1'000 / 500;
  return cells;
}

class Field {
 public:
  explicit Field(std::size_t n) : values_(n) {}
  void fill(int from) {
    EACH(i, values_.size()) { values_[i] = from + static_cast<int>(i); }
  }
  long sum() const {
    long result = 0;
#pragma ws for reduction(+ : result) steal_schedule(guided, static_cast <long>(values_.size()) / 8)
    for (std::size_t i = 0; i < values_.size(); ++i) {
      try {
        if (i % 100 == 0) throw std::string("caught");
        result += values_[i];
      } catch (const std::string& text) {
        result += static_cast<long>(text.size());
      }
    }
    return result;
  }

 private:
  std::vector<int> values_;
};

struct Extent {
  double low, high;
};

void widen(Extent& to, const Extent& by) {
  if (by.low < to.low) to.low = by.low;
  if (by.high > to.high) to.high = by.high;
}

#pragma omp declare reduction(widen:Extent \
                              : widen(omp_out, omp_in)) initializer(omp_priv = omp_orig)

double width(int n) {
  Extent extent = {0, 0};
#pragma ws for reduction(widen : extent)
  for (int i = 0; i < n; ++i) widen(extent, Extent{-0.5 * i, 2.0 * i});
  return extent.high - extent.low;
}

int main() {
  std::vector<double> values(1000, 0.5);
  const auto count = [&values](int n) {
    int found = 0;
#pragma ws for schedule(guided)
    for (int i = 0; i < n; ++i) {
      const auto add = [&found] {
#pragma ws atomic
        ++found;
      };
      if (values[static_cast<std::size_t>(i)] > 0.25) add();
    }
    return found;
  };
  Field field(5000);
  field.fill(2);
  std::string first, second;
#pragma ws sections
  {
    first = "one";
#pragma ws section
    {
      const std::string text = "two {";
      second = text;
    }
  }
  std::printf("%g %g %d %d %d %ld %s %s %zu\n", width(100), total(values),
              total(std::vector<int>(10, 3)), grid<20>(), count(1000), field.sum(), first.c_str(),
              second.c_str(), std::string(raw).size());
  return 0;
}
