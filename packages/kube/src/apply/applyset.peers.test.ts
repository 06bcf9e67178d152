// needs: kubectl, kubernetes
// What we write is an ApplySet to kubectl too: its label lists exactly the members, and kubectl leaves a set of another tool alone.
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ensureKubeAssets } from '@brokkr/local/assets/kube-assets.ts'
import { runTool } from '@brokkr/local/supervisor/run-tool.ts'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { beforeAll, expect, test } from 'vitest'
import { identityOf, type KubeObject } from '../client/object.ts'
import { configMap, deployment, openTestKube } from '../test-parts/open-test-kube.ts'
import { applyObjects } from './apply-objects.ts'
import { addPlannedMembers, applySetId, emptyApplySet, PART_OF_LABEL } from './applyset.ts'
import { saveApplySet } from './applyset-store.ts'

const fieldManager = 'brokkr-agent'
const form = { tooling: 'brokkr/v0.0.0', type: 'brokkr.io/stack' }
let at: Awaited<ReturnType<typeof cluster>>
let folder: string
let program: string
beforeAll(async () => {
  at = await cluster()
  folder = await mkdtemp(join(tmpdir(), 'brokkr-kubectl-'))
  program = (await ensureKubeAssets({ stage: 'core', parts: ['kubectl'] })).kubectl ?? ''
  return () => rm(folder, { recursive: true, force: true })
}, 1_800_000)

let asked = 0
const kubectl = (...args: string[]) =>
  runTool({
    name: 'kubectl',
    command: program,
    args: ['--kubeconfig', at.kubeconfigPath, ...args],
    cwd: folder,
    env: { HOME: folder, KUBECTL_APPLYSET: 'true' },
    logFile: join(folder, `${(asked += 1)}.log`),
    timeoutMs: 60_000,
  })

test('kubectl lists the members of an ApplySet by label and refuses one of another tool', async () => {
  const kube = await openTestKube(at)
  const [home, other] = [await at.namespace(), await at.namespace()]
  const set = emptyApplySet({ name: `stack-${randomBytes(4).toString('hex')}`, namespace: home })
  const part = (object: KubeObject): KubeObject => ({
    ...object,
    metadata: { ...object.metadata, labels: { ...object.metadata.labels, [PART_OF_LABEL]: applySetId(set) } },
  })
  const members = [configMap(home, 'a'), configMap(home, 'b'), configMap(other, 'c'), deployment(other, 'web')].map(part)
  const strangers = [configMap(home, 'stranger'), configMap(other, 'c2', {}, { [PART_OF_LABEL]: 'applyset-other-v1' })]
  const parent = await saveApplySet({ kube }, addPlannedMembers(set, members.map(identityOf)), form, { fieldManager })
  const report = await applyObjects(
    { kube, clock },
    [...members, ...strangers].map((object) => ({ object })),
    { fieldManager, dryRun: false },
  )
  expect(report.ok).toBe(true)

  // As anybody would: the kinds and namespaces that the parent names, and its label.
  const { annotations = {} } = parent.metadata
  const kinds = annotations['applyset.kubernetes.io/contains-group-kinds']!
  const namespaces = [home, ...annotations['applyset.kubernetes.io/additional-namespaces']!.split(',')]
  const found = await Promise.all(
    namespaces.map(async (namespace) => {
      const listed = await kubectl('get', kinds, '-n', namespace, '-l', `${PART_OF_LABEL}=${applySetId(set)}`, '-o', 'name')
      return listed
        .split('\n')
        .filter(Boolean)
        .map((name) => `${namespace}/${name}`)
    }),
  )
  expect(found.flat().toSorted()).toEqual(
    [`${home}/configmap/a`, `${home}/configmap/b`, `${other}/configmap/c`, `${other}/deployment.apps/web`].toSorted(),
  )

  const file = join(folder, 'one.json')
  await writeFile(file, JSON.stringify(configMap(home, 'a')))
  const prune = kubectl('apply', '-n', home, '--prune', `--applyset=secrets/${set.name}`, '-f', file)
  await expect(prune).rejects.toThrow(/already exists and is managed by another tool|tooling|brokkr/i)
  expect((await kube.find({ apiVersion: 'v1', kind: 'ConfigMap', name: 'b', namespace: home }))?.metadata.name).toBe('b')
})
