// A controller and its hooks on a real API server, with the rights of the shipped manifest, and callers that sign or have tokens.
import { createHash, createHmac, randomBytes } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import type { Kube } from '@brokkr/kube'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { silentLog } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { onTestFinished } from 'vitest'
import { DecisionStore } from '../approvals/decision-store.ts'
import type { HooksSettings } from '../hooks/deps.ts'
import { type HooksServer, startHooks } from '../hooks/server.ts'
import { rbacManifests } from '../rbac.ts'
import { type ForgeSite, marked, openForgeSite } from './forge-world.ts'
import { ensureNamespace, openPipeline, type Server, setRelease, type startTestController } from './world.ts'

export const KEY = 's3cr3t'
export const VOUCHING_KEY = 'the-key-of-the-broker-with-32-chars'

const account = { user: 'system:serviceaccount:brokkr-system:brokkr-pipelines', groups: ['system:authenticated'] }

/** The client of the program: it has the rights of the manifest and no others. */
export async function openProgramKube({ kube }: Server): Promise<Kube> {
  await ensureNamespace(kube, 'brokkr-system')
  for (const object of rbacManifests()) {
    if (object.metadata.name === 'brokkr-pipelines-observe' && object.kind === 'ClusterRole') {
      // The aggregation controller does not run here: the rules are those that it would copy.
      const parts = rbacManifests().filter(({ metadata }) => metadata.labels?.['pipelines.brokkr.io/observe'] === 'true')
      await kube.create({ ...object, aggregationRule: undefined, rules: parts.flatMap(({ rules }) => rules as object[]) })
    } else await kube.create(object)
  }
  const program = kube.with({ as: account })
  await waitFor('the rights of the program', () => program.list({ apiVersion: 'pipelines.weave.works/v1alpha1', kind: 'Pipeline' }))
  return program
}

export async function openHooks(
  kube: Kube,
  controller: ReturnType<typeof startTestController>,
  more: Partial<HooksSettings> = {},
): Promise<HooksServer & { warnings: string[] }> {
  const warnings: string[] = []
  const hooks = await startHooks(
    {
      kube,
      records: controller.records,
      decisions: new DecisionStore({ kube, clock }),
      wake: (key) => controller.wake(key),
      explain: (key) => controller.explain(key),
      preview: (key, signal) => controller.preview(key, signal),
      warn: (_pipeline, reason) => void warnings.push(reason),
      clock,
      log: silentLog,
      metrics: createMetrics({}),
    },
    {
      host: '127.0.0.1',
      port: 0,
      tls: null,
      rateLimit: { calls: 1_000, windowMs: 30_000 },
      trustedProxies: [],
      vouchingKeys: [Buffer.from(VOUCHING_KEY)],
      allowLegacySignature: false,
      allowUnsignedPromotion: false,
      waitMs: 60_000,
      namespace: 'brokkr-system',
      policy: { defaultTrigger: 'Watch', attempts: 10 },
      ...more,
    },
  )
  return Object.assign(hooks, { warnings })
}

/** One repository for all shops of a file; a second forge whose API always fails. */
export async function openShopForges() {
  const files = { 'README.md': 'markers of one shop per file\n' }
  const [working, failing] = await Promise.all([openForgeSite({ files }), openForgeSite({ files })])
  failing.forge.faults.push({ route: /./, kind: 'status', status: 500 })
  const strategyOf = ({ pullRequest }: ForgeSite) => ({ ...pullRequest, secretRef: { name: 'forge' } })
  return {
    working,
    failing,
    pullRequest: () => strategyOf(working),
    failingPullRequest: () => strategyOf(failing),
    close: async () => {
      await Promise.all([working.close(), failing.close()])
    },
  }
}
export type ShopForges = Awaited<ReturnType<typeof openShopForges>>

export interface Sent {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

export async function send(
  hooks: HooksServer,
  method: string,
  path: string,
  more: { body?: string; headers?: Record<string, string> } = {},
): Promise<Sent> {
  const answer = await fetch(`http://127.0.0.1:${hooks.port}${path}`, {
    method,
    headers: more.headers ?? {},
    ...(more.body === undefined ? {} : { body: more.body }),
  })
  return { status: answer.status, headers: answer.headers, text: await answer.text() }
}

/** From another loopback address: another client. */
export function sendFrom(hooks: HooksServer, localAddress: string, path: string, headers: Record<string, string> = {}): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const request = httpRequest(
    { host: '127.0.0.1', port: hooks.port, localAddress, method: 'POST', path, headers, agent: false },
    (answer) => {
      answer.resume()
      resolve(answer.statusCode ?? 0)
    },
  )
  request.once('error', reject)
  request.end()
  return promise
}

export function sign(
  method: string,
  path: string,
  more: { body?: string; key?: string; atSeconds?: number; nonce?: string; approver?: string } = {},
): Record<string, string> {
  const timestamp = String(more.atSeconds ?? Math.floor(Date.now() / 1000))
  const nonce = more.nonce ?? randomBytes(16).toString('hex')
  const bodyHash = createHash('sha256')
    .update(more.body ?? '')
    .digest('hex')
  const lines = [method, path, timestamp, nonce, bodyHash, ...(more.approver === undefined ? [] : [more.approver])]
  return {
    'x-signature': `sha256=${createHmac('sha256', more.key ?? KEY)
      .update(lines.join('\n'))
      .digest('hex')}`,
    'x-signature-timestamp': timestamp,
    'x-signature-nonce': nonce,
    ...(more.approver === undefined ? {} : { 'x-approver': more.approver }),
  }
}

export const signBody = (body: string, key = KEY): Record<string, string> => ({
  'x-signature': `sha256=${createHmac('sha256', key).update(body).digest('hex')}`,
})

/** A service account with these rights in one namespace: its subject and a token. */
export async function openUser(
  kube: Kube,
  namespace: string,
  name: string,
  rights: { verb: string; group: string; resource: string }[],
): Promise<{ subject: string; bearer: Record<string, string> }> {
  await kube.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { namespace, name } })
  const rbac = { apiVersion: 'rbac.authorization.k8s.io/v1' }
  const rules = rights.map(({ verb, group, resource }) => ({ apiGroups: [group], resources: [resource], verbs: [verb] }))
  await kube.create({ ...rbac, kind: 'Role', metadata: { namespace, name }, rules })
  await kube.create({
    ...rbac,
    kind: 'RoleBinding',
    metadata: { namespace, name },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
    subjects: [{ kind: 'ServiceAccount', namespace, name }],
  })
  const user = `system:serviceaccount:${namespace}:${name}`
  for (const right of rights) await waitFor(`the right of ${name}`, () => isAllowed(kube, user, namespace, right))
  return { subject: `user:${user}`, bearer: await requestToken(kube, { namespace, name }) }
}

/** Creates a service account again and returns a token of it: the same name, another UID. */
export async function createToken(kube: Kube, at: { namespace: string; name: string }): Promise<Record<string, string>> {
  await kube.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { namespace: at.namespace, name: at.name } })
  return requestToken(kube, at)
}

async function requestToken(kube: Kube, { namespace, name }: { namespace: string; name: string }): Promise<Record<string, string>> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} }
  const { text } = await kube.request('POST', path, { body })
  return { authorization: `Bearer ${JSON.parse(text).status.token}` }
}

async function isAllowed(kube: Kube, user: string, namespace: string, right: object): Promise<boolean> {
  const body = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SubjectAccessReview',
    spec: { user, resourceAttributes: { namespace, ...right } },
  }
  const { text } = await kube.request('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', { body })
  return JSON.parse(text).status.allowed === true
}

/** Environments dev and prod (and more), dev settled on 5.0.0, the others on 4.0.0, and a Secret `hook` with the key. */
export async function openShop(
  server: Server,
  forges: ShopForges,
  spec: Record<string, unknown> = {},
  stages: readonly string[] = ['dev', 'prod'],
) {
  const { kube, plane } = server
  const namespaces = Object.fromEntries(await Promise.all(stages.map(async (stage) => [stage, await plane.namespace(stage)] as const)))
  const { environments: extra = {}, ...rest } = spec as { environments?: Record<string, object> }
  const pipeline = await openPipeline(server, {
    environments: stages.map((name) => ({ name, targets: [{ namespace: namespaces[name]! }], ...extra[name] })),
    promotion: { strategy: { notification: {} } },
    ...rest,
  })
  const move = (stage: string, revision: string) => setRelease(kube, namespaces[stage]!, revision)
  for (const stage of stages) await move(stage, stage === 'dev' ? '5.0.0' : '4.0.0')
  await createSecret(kube, { namespace: pipeline.namespace, name: 'hook' }, { 'hmac-key': KEY })
  await createSecret(kube, { namespace: pipeline.namespace, name: 'forge' }, forges.working.secret)
  const markers = stages.map((stage) => marked('4.0.0', `${pipeline.namespace}:${pipeline.name}:${stage}`).replace('spec', stage))
  // Only where it is used: a commit takes several runs of git.
  const used = [forges.working, forges.failing].filter(({ pullRequest }) => JSON.stringify(spec).includes(pullRequest.url))
  for (const { repository } of used) await repository.commit({ [`${pipeline.namespace}.yaml`]: markers.join('') })
  await pipeline.create()
  // Its pull requests are not polled any longer.
  onTestFinished(async () => void (await pipeline.delete()))
  const event = (revision: string | undefined = '5.0.0', object: Record<string, string> = {}) =>
    JSON.stringify({
      involvedObject: {
        apiVersion: 'helm.toolkit.fluxcd.io/v2',
        kind: 'HelmRelease',
        namespace: namespaces['dev'],
        name: 'podinfo',
        ...object,
      },
      severity: 'info',
      metadata: revision === '' ? {} : { revision },
    })
  return {
    ...pipeline,
    namespaces,
    move,
    event,
    promotionPath: (source = 'dev') => `/promotion/${pipeline.namespace}/${pipeline.name}/${source}`,
    approvalPath: (revision: string, environment = 'prod') => `/approval/${pipeline.namespace}/${pipeline.name}/${environment}/${revision}`,
    waitForPhase: (phase: string) =>
      waitFor(`phase ${phase}`, async () => (await pipeline.phases()).at(-1) === phase, {
        onTimeout: async () => JSON.stringify(await pipeline.phases()),
      }),
    /** The newest promotion. */
    newest: async () => {
      const newest = (await pipeline.promotions()).at(-1)
      if (newest === undefined) throw new Error('there is no promotion')
      return newest
    },
  }
}

async function createSecret(kube: Kube, metadata: { namespace: string; name: string }, content: Record<string, string>): Promise<void> {
  const data = Object.fromEntries(Object.entries(content).map(([key, value]) => [key, Buffer.from(value).toString('base64')]))
  await kube.create({ apiVersion: 'v1', kind: 'Secret', metadata, data })
}
