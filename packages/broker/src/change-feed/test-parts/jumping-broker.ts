// The broker with a clock that a signal sets: SIGUSR2 moves what it believes to be the time five minutes back, the next one ten
// minutes ahead of the truth, and so on; the third puts it right.
import { systemClock } from '@brokkr/runtime/clock.ts'
import { runBroker } from '../../main.ts'

const places = [0, -300_000, 600_000]
let at = 0
process.on('SIGUSR2', () => {
  at = (at + 1) % places.length
})
await runBroker({ env: process.env, clock: { ...systemClock, now: () => systemClock.now() + places[at]! } })
