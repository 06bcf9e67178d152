// A program that joins on counted dependencies, to be killed at any await.
import { createClient } from '@brokkr/contract/client.ts'
import { loadKubeconfig, openKube } from '@brokkr/kube'
import { crashProgram } from '@brokkr/testing/crash/crash-child.ts'
import { join } from '../identity/join.ts'
import { createPakStore } from '../identity/own-pak.ts'
import { createPakProbe } from '../identity/pak-probe.ts'

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
    const store = createPakStore({ kube: counted.kube }, input.namespace, signal)
    const probe = createPakProbe(counted.client, () => '' as never, signal)
    await join({ store, probe, broker: { client: counted.client }, now: Date.now }, joinForm(input), signal)
    await kube.close()
  })
