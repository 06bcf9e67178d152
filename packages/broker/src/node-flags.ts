// How Node runs a broker: a small young generation, because a broker mostly waits and its answers die young (docs/decisions/0004, 0006).
// Node reads it when a process starts, so whoever starts a broker passes it on; the first line of the command line has it too.
export const brokerFlags: readonly string[] = ['--max-semi-space-size=8']
