# The fields of scheduler lines, split at commas and colons, as CSV: mawk -v out=FOLDER -f split_fields.awk LOG
/Prefill batch|Decode batch|Retract requests|Avg prompt throughput/ {
    n = split($0, field, /, |: /)
    row = field[1]
    for (i = 2; i <= n; i++) row = row "," field[i]
    print row > (out "/fields.csv")
    found++
}
END { print found + 0 }
