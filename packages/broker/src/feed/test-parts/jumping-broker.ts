// The broker with a clock that a signal sets: SIGUSR2 moves what it believes to be the time ten minutes ahead, the next one back.
import { systemClock } from '@brokkr/runtime/clock.ts'
import { runBroker } from '../../main.ts'

const jumpMs = 600_000
let aheadMs = 0
process.on('SIGUSR2', () => {
  aheadMs = aheadMs === 0 ? jumpMs : 0
})
await runBroker({ env: process.env, clock: { ...systemClock, now: () => systemClock.now() + aheadMs } })
