// SPDX-License-Identifier: BSD-3-Clause
#include "model.hpp"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace mh::emulate {
namespace {

using Json = nlohmann::json;

Curve curve_of(const Json& points) {
  std::vector<std::pair<double, double>> found;
  for (const Json& point : points) found.emplace_back(point.at(0), point.at(1));
  return Curve(std::move(found));
}

Model model_of(const Json& from) {
  Model model;
  for (const Json& size : from.at("copy")) {
    model.copy.push_back({size.at("bytes"), curve_of(size.at("gb_per_s"))});
  }
  model.between = curve_of(from.at("between"));
  model.l2_bytes = from.at("l2_bytes");
  model.blocks = from.at("blocks");
  model.reduce = from.at("reduce");
  model.page_ns = from.at("page_ns");
  model.page_lines = from.at("page_lines");
  model.call_ns = from.at("call_ns");
  model.line_ns = from.at("line_ns");
  model.remote_copy = from.at("remote_copy");
  model.remote_line = from.at("remote_line");
  model.match_ns = from.at("match_ns");
  model.hand_over_ns = from.at("hand_over_ns");
  model.topology = from.at("topology");
  return model;
}

}  // namespace

double Curve::total(double cores) const {
  if (cores <= points_.front().first) return points_.front().second * cores / points_.front().first;
  for (std::size_t i = 1; i < points_.size(); ++i) {
    const auto& [low, at_low] = points_[i - 1];
    const auto& [high, at_high] = points_[i];
    if (cores <= high) return at_low + (at_high - at_low) * (cores - low) / (high - low);
  }
  return points_.back().second;
}

const Curve& Model::curve_for(double between_bytes) const {
  const OfSize* nearest = &copy.back();
  double distance = HUGE_VAL;
  for (const OfSize& one : copy) {
    const double away = std::abs(std::log(between_bytes / (2 * one.bytes)));
    if (away < distance) nearest = &one;
    distance = std::min(distance, away);
  }
  return nearest->curve;
}

Plan read_plan(const char* path) {
  std::ifstream file(path);
  const Json from = Json::parse(file);
  Plan plan;
  plan.model = model_of(from.at("model"));
  plan.dilation = from.at("dilation");
  plan.nap_ns = from.at("nap_ns");
  plan.shared = from.at("shared");
  plan.cpus = from.at("cpus").get<std::vector<std::int32_t>>();
  plan.numa = from.at("numa").get<std::vector<std::uint16_t>>();
  return plan;
}

}  // namespace mh::emulate
