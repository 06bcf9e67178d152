// A program that joins on counted dependencies, to be killed at any await.
import { createClient } from '@brokkr/contract/client.ts'
import { openKube } from '@brokkr/kube/client.ts'
import { loadKubeconfig } from '@brokkr/kube/kubeconfig.ts'
import { crashProgram } from '@brokkr/testing/crash-child.ts'
import { join } from '../join.ts'
import { keyJudge } from '../key-judge.ts'
import { keyStore } from '../own-key.ts'

export interface JoinInput {
  readonly brokerUrl: string
  readonly inviteId: string
  readonly token: string
  readonly name: string
  readonly kubeconfigPath: string
  readonly namespace: string
}

export const joinForm = ({ token, name }: JoinInput) => ({
  token,
  name,
  clusterName: name,
  clusterUid: 'u',
  agentVersion: '1.0.0',
  k8sVersion: 'v1.36.0',
})

if (import.meta.main)
  await crashProgram(async (input: JoinInput, underCrash) => {
    const kube = openKube(await loadKubeconfig({ path: input.kubeconfigPath, env: {} }))
    const counted = underCrash({ kube, client: createClient({ baseUrl: input.brokerUrl }) })
    const signal = AbortSignal.timeout(60_000)
    const store = keyStore({ kube: counted.kube }, input.namespace, signal)
    const judge = keyJudge(counted.client, () => '' as never, signal)
    await join({ store, judge, broker: { client: counted.client }, now: Date.now }, joinForm(input), signal)
    await kube.close()
  })
