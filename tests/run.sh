# Runs a test program with a filter. Without a filter runs it once per processor, each with a part of the
# tests.
program=$1 filter=$2
parts=$(nproc 2> /dev/null || echo 2)
if [ "$filter" != '*' ] || [ "$parts" -lt 2 ]; then
    exec "$program" --gtest_brief=1 --gtest_filter="$filter"
fi
running=
for part in $(seq 0 $((parts - 1))); do
    GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$part "$program" --gtest_brief=1 &
    running="$running $!"
done
failed=0
for process in $running; do wait "$process" || failed=1; done
exit $failed
