# Runs a test program with a filter. Without a filter divides the tests into parts, and runs as many parts at
# once as there are processors. There are more parts than processors, because some tests take much longer.
program=$1 filter=$2
processors=$(nproc 2> /dev/null || echo 2)
tests=$("$program" --gtest_list_tests | grep -c '^  ')
if [ "$filter" != '*' ] || [ "$processors" -lt 2 ] || [ "$tests" -lt 2 ]; then
    exec "$program" --gtest_brief=1 --gtest_filter="$filter"
fi
GTEST_TOTAL_SHARDS=$((processors * 4 < tests ? processors * 4 : tests))
export GTEST_TOTAL_SHARDS
seq 0 $((GTEST_TOTAL_SHARDS - 1)) |
    xargs -P "$processors" -I '{}' env GTEST_SHARD_INDEX='{}' "$program" --gtest_brief=1
