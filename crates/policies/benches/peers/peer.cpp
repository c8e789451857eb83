// Maps one case with Scotch or METIS and prints the processor time of one call, in nanoseconds.
//
//   peer scotch|metis CASE.cm CASE.topo OUT.map
//
// CASE.cm: "CMAT0001", u32 tasks, u32 edges, then {u32 one, u32 other, u32 amount} each, little endian.
// CASE.topo: lines "nodes N", "local D", "exact 0|1", "kind WORD", "arity A...", "level D...", "dist D...".
// OUT.map: the node of each task as i32. What is timed is what a caller pays: building the library's own
// graph and architecture from compressed rows, and the mapping. One thread; the median of several calls.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

extern "C" {
#include <scotch.h>
}
#include <metis.h>

struct Case {
    int tasks = 0, nodes = 0, local = 0, exact = 0;
    std::string kind;
    std::vector<int> starts, partners, weights, arity, level;
    std::vector<std::vector<int>> distance;
};

static Case read_case(const char *matrix, const char *machine) {
    Case c;
    std::ifstream in(matrix, std::ios::binary);
    char magic[8];
    uint32_t head[2];
    in.read(magic, 8).read(reinterpret_cast<char *>(head), 8);
    if (!in || memcmp(magic, "CMAT0001", 8)) { fprintf(stderr, "peer: cannot read %s\n", matrix); exit(2); }
    std::vector<uint32_t> edges(3ull * head[1]);
    in.read(reinterpret_cast<char *>(edges.data()), 12ull * head[1]);
    c.tasks = int(head[0]);
    c.starts.assign(c.tasks + 1, 0);
    for (size_t e = 0; e < edges.size(); e += 3) { c.starts[edges[e] + 1]++; c.starts[edges[e + 1] + 1]++; }
    for (int i = 0; i < c.tasks; i++) c.starts[i + 1] += c.starts[i];
    std::vector<int> place(c.starts.begin(), c.starts.end() - 1);
    c.partners.resize(c.starts[c.tasks]);
    c.weights.resize(c.starts[c.tasks]);
    for (size_t e = 0; e < edges.size(); e += 3)
        for (int turn = 0; turn < 2; turn++) {
            int own = edges[e + turn], other = edges[e + 1 - turn];
            c.partners[place[own]] = other;
            c.weights[place[own]++] = int(edges[e + 2]);
        }
    std::ifstream text(machine);
    for (std::string line; std::getline(text, line);) {
        std::istringstream words(line);
        std::string key;
        words >> key;
        std::vector<int> numbers;
        if (key == "kind") { words >> c.kind; continue; }
        if (key == "name" || key == "note") continue;
        for (int n; words >> n;) numbers.push_back(n);
        if (key == "nodes") c.nodes = numbers[0];
        if (key == "local") c.local = numbers[0];
        if (key == "exact") c.exact = numbers[0];
        if (key == "arity") c.arity = numbers;
        if (key == "level") c.level = numbers;
        if (key == "dist") c.distance.push_back(numbers);
    }
    return c;
}

// A machine that is no tree: its nodes with an edge between those that are nearest.
static int graph_arch(const Case &c, SCOTCH_Graph *graph, SCOTCH_Arch *arch) {
    std::vector<SCOTCH_Num> starts{0}, partners, weights;
    int least = 1 << 30;
    for (int i = 0; i < c.nodes; i++)
        for (int j = 0; j < c.nodes; j++) if (i != j) least = std::min(least, c.distance[i][j]);
    for (int i = 0; i < c.nodes; i++) {
        for (int j = 0; j < c.nodes; j++)
            if (i != j && c.distance[i][j] == least) { partners.push_back(j); weights.push_back(1); }
        starts.push_back(SCOTCH_Num(partners.size()));
    }
    SCOTCH_graphInit(graph);
    if (SCOTCH_graphBuild(graph, 0, c.nodes, starts.data(), starts.data() + 1, NULL, NULL,
                          SCOTCH_Num(partners.size()), partners.data(), weights.data())) return 1;
    return SCOTCH_archBuild2(arch, graph, 0, NULL);
}

static int scotch(const Case &c, std::vector<int> &map) {
    SCOTCH_Arch arch;
    SCOTCH_Graph machine, graph;
    SCOTCH_archInit(&arch);
    bool flat = c.exact && c.arity.size() == 1, other = !c.exact;
    if (other) { if (graph_arch(c, &machine, &arch)) return 1; }
    else if (flat) { if (SCOTCH_archCmplt(&arch, c.nodes)) return 1; }
    else {
        std::vector<SCOTCH_Num> arity(c.arity.begin(), c.arity.end()), links;
        for (int far : c.level) links.push_back(far - c.local);
        if (SCOTCH_archTleaf(&arch, SCOTCH_Num(arity.size()), arity.data(), links.data())) return 1;
    }
    std::vector<SCOTCH_Num> starts(c.starts.begin(), c.starts.end()), partners(c.partners.begin(), c.partners.end()),
        weights(c.weights.begin(), c.weights.end()), part(c.tasks);
    SCOTCH_graphInit(&graph);
    if (SCOTCH_graphBuild(&graph, 0, c.tasks, starts.data(), starts.data() + 1, NULL, NULL,
                          SCOTCH_Num(partners.size()), partners.data(), weights.data())) return 1;
    SCOTCH_Strat strategy;
    SCOTCH_stratInit(&strategy);
    SCOTCH_randomReset();
    int failed = SCOTCH_graphMap(&graph, &arch, &strategy, part.data());
    SCOTCH_stratExit(&strategy);
    SCOTCH_graphExit(&graph);
    SCOTCH_archExit(&arch);
    if (other) SCOTCH_graphExit(&machine);
    map.assign(part.begin(), part.end());
    return failed;
}

static int metis(const Case &c, std::vector<int> &map) {
    std::vector<idx_t> starts(c.starts.begin(), c.starts.end()), partners(c.partners.begin(), c.partners.end()),
        weights(c.weights.begin(), c.weights.end()), part(c.tasks);
    idx_t tasks = c.tasks, one = 1, nodes = c.nodes, cut, options[METIS_NOPTIONS];
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_UFACTOR] = 1;
    options[METIS_OPTION_SEED] = 1;
    int answer = METIS_PartGraphRecursive(&tasks, &one, starts.data(), partners.data(), NULL, NULL, weights.data(),
                                          &nodes, NULL, NULL, options, &cut, part.data());
    map.assign(part.begin(), part.end());
    return answer != METIS_OK;
}

static double now() {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

int main(int count, char **words) {
    if (count != 5) return 2;
    setenv("SCOTCH_PTHREAD_NUMBER", "1", 1);
    Case c = read_case(words[2], words[3]);
    std::function<int(const Case &, std::vector<int> &)> call = strcmp(words[1], "metis") ? scotch : metis;
    std::vector<int> map, again;
    std::vector<double> times;
    for (double sum = 0; times.size() < 11 && (times.size() < 2 || sum < 3e8);) {
        double start = now();
        if (call(c, times.empty() ? map : again)) return 3;
        times.push_back(now() - start);
        sum += times.back();
    }
    std::sort(times.begin(), times.end());
    std::ofstream(words[4], std::ios::binary).write(reinterpret_cast<char *>(map.data()), 4 * long(map.size()));
    fprintf(stderr, "%.0f\n", times[times.size() / 2]);
    return 0;
}
