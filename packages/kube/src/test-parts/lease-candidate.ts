// A program that stands for a Lease and says so each time it would act. Run by lease.test.ts, which stops and continues it.
import { systemClock } from '@brokkr/runtime/clock.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { loadKubeconfig } from '../auth/load-kubeconfig.ts'
import { openKube } from '../client/open-kube.ts'
import { startElection } from '../controller/lease.ts'

export interface Act {
  identity: string
  epoch: number
  /** By the monotonic clock, which all processes of the machine share. */
  atNs: string
}

const [, , kubeconfigPath = '', namespace = '', identity = '', skewMs = '0'] = process.argv
process.once('disconnect', () => process.exit(0))
const kube = openKube(await loadKubeconfig({ path: kubeconfigPath, env: {} }))
const clock = { ...systemClock, now: () => Date.now() + Number(skewMs) }
const election = startElection({ kube, clock, log }, { name: 'fenced', namespace, identity, durationMs: 1_000, retryEveryMs: 100 })
setInterval(() => {
  const epoch = election.term?.epoch
  const atNs = process.hrtime.bigint().toString()
  if (election.held() && epoch !== undefined) process.send?.({ identity, epoch, atNs } satisfies Act)
}, 2)
