// The data flow of the demo: the operator on the practice cluster, a runner for its processors, and a flow PostgreSQL → mask → PostgreSQL
// whose source gets rows all the time.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Kube, loadKubeconfig, numberAt, openKube, textAt } from '@brokkr/kube'
import { freePorts } from '@brokkr/local/supervisor/free-ports.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import { createLog } from '@brokkr/runtime/logging/log.ts'
import pg from 'pg'
import { readCliEnvironment } from '../../config.ts'
import type { LocalCluster } from '../local-cluster.ts'
import type { StepResult } from '../progress.ts'
import { findStartCommand } from '../start-command.ts'
import type { UpContext } from '../up.ts'
import { runLabel, startFlowRunner } from './runner.ts'

const namespace = 'default'
const flowName = 'payments'
const demoDatabase = 'brokkr_demo'
const secretName = 'brokkr-demo-database'
const fieldManager = 'brokkr-up'
const waitLimitMs = 60_000
const insertMs = 2_000
/** Older rows of the demo are deleted, so that it never grows. */
const rowsKept = 5_000

/** A demo that does not start is skipped: everything else works without it. */
export async function startDemoFlow(context: UpContext, practice: LocalCluster, databaseUrl: string): Promise<StepResult<void>> {
  try {
    return await startFlow(context, practice, databaseUrl)
  } catch (error) {
    context.signal.throwIfAborted()
    return { detail: `the demo flow did not start: ${errorText(error)}`, value: undefined, skipped: true }
  }
}

async function startFlow(context: UpContext, practice: LocalCluster, databaseUrl: string): Promise<StepResult<void>> {
  const isForeign = context.flags.databaseUrl !== undefined || readCliEnvironment(process.env).DATABASE_URL !== null
  const demoUrl = isForeign ? undefined : await ensureDemoDatabase(databaseUrl)
  if (demoUrl === undefined) return { detail: 'the demo flow needs the PostgreSQL of brokkr up', value: undefined, skipped: true }
  await startOperatorProgram(context, practice)
  const kube = openKube(await loadKubeconfig({ path: practice.kubeconfigPath, env: {} }), { userAgent: 'brokkr-up' })
  const log = createLog({ name: 'brokkr-up', level: 'warn', format: 'pretty', destination: process.stderr })
  const program = findStartCommand('dataflow')
  const runner = startFlowRunner(
    { kube, log },
    {
      folder: join(context.dir, 'flows'),
      kubeconfigPath: practice.kubeconfigPath,
      program: { ...program, args: program.args.slice(0, -1) },
    },
  )
  const source = await openSource(demoUrl)
  const inserting = keepInserting(source, context.signal)
  context.signal.addEventListener(
    'abort',
    () => void Promise.allSettled([runner.stop(), inserting.then(() => source.end())]).then(() => kube.close()),
  )
  await applyFlow(kube, demoUrl)
  return waitForRows(kube, context.signal)
}

async function startOperatorProgram({ supervisor }: UpContext, practice: LocalCluster): Promise<void> {
  const [metricsPort, probePort] = await freePorts(2)
  const program = findStartCommand('dataflow')
  await supervisor.start({
    name: 'dataflow-operator',
    ...program,
    args: [...program.args, 'operator'],
    env: {
      ...program.env,
      KUBECONFIG: practice.kubeconfigPath,
      OPERATOR_NAMESPACE: namespace,
      OPERATOR_INSTALL_CRDS: 'true',
      OPERATOR_BIND_HOST: '127.0.0.1',
      OPERATOR_METRICS_PORT: String(metricsPort),
      OPERATOR_PROBE_PORT: String(probePort),
      OPERATOR_PROGRESS_FROM_ANNOTATION: 'true',
      // A person watches.
      OPERATOR_PROGRESS_SECONDS: '5',
      PROCESSOR_IMAGE: 'brokkr:local',
      PROCESSOR_ALLOW_LOOPBACK: 'true',
      PROCESSOR_POD_LABELS: runLabel,
    },
    ports: { metrics: metricsPort!, probes: probePort! },
    ready: `http://127.0.0.1:${probePort}/readyz`,
    readyLimitMs: 60_000,
  })
}

/** Beside the broker's database. Undefined on a server of the user, where nothing is created. */
async function ensureDemoDatabase(brokerUrl: string): Promise<string | undefined> {
  const demoUrl = brokerUrl.replace(/\/brokkr(?=$|\?)/, `/${demoDatabase}`)
  if (demoUrl === brokerUrl) return undefined
  const client = new pg.Client({ connectionString: brokerUrl })
  await client.connect()
  try {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [demoDatabase])
    if (rowCount === 0) await client.query(`create database ${demoDatabase}`)
  } finally {
    await client.end()
  }
  return demoUrl
}

async function openSource(databaseUrl: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: databaseUrl })
  client.on('error', () => undefined)
  await client.connect()
  await client.query(`create schema if not exists demo;
    create table if not exists demo.payments (id bigserial primary key, customer text, card text, amount numeric, updated_at timestamptz not null default clock_timestamp());
    create table if not exists demo.masked_payments (id bigint primary key, customer text, card text, amount numeric, updated_at timestamptz)`)
  return client
}

/** Ends with the signal, or when the database is gone. */
async function keepInserting(client: pg.Client, signal: AbortSignal): Promise<void> {
  const rows = `insert into demo.payments (customer, card, amount)
    select 'customer ' || n, '4000 0000 0000 ' || lpad(n::text, 4, '0'), n from generate_series(1, 10) n`
  try {
    while (!signal.aborted) {
      await client.query(rows)
      for (const table of ['payments', 'masked_payments'])
        await client.query(`delete from demo.${table} where id < (select max(id) - ${rowsKept} from demo.${table})`)
      await sleep(insertMs, undefined, { signal })
    }
  } catch {
    // Stopped: the demo has no further use for the rows.
  }
}

async function applyFlow(kube: Kube, databaseUrl: string): Promise<void> {
  const data = { url: Buffer.from(databaseUrl).toString('base64') }
  const connectionStringSecretRef = { name: secretName, key: 'url' }
  await kube.apply(
    { apiVersion: 'v1', kind: 'Secret', metadata: { name: secretName, namespace }, type: 'Opaque', data },
    { fieldManager, force: true },
  )
  const spec = {
    source: { type: 'postgresql', config: { connectionStringSecretRef, table: 'demo.payments', pollInterval: 1, overlapSeconds: 0 } },
    transformations: [{ type: 'mask', config: { fields: ['card'] } }],
    sink: { type: 'postgresql', config: { connectionStringSecretRef, table: 'demo.masked_payments', upsertMode: true } },
  }
  await kube.apply(
    { apiVersion: 'dataflow.dataflow.io/v1', kind: 'DataFlow', metadata: { name: flowName, namespace }, spec },
    { fieldManager, force: true },
  )
}

/** Skipped, not failed, while no row has arrived: everything else works. */
async function waitForRows(kube: Kube, signal: AbortSignal): Promise<StepResult<void>> {
  const endMs = Date.now() + waitLimitMs
  for (;;) {
    const flow = await kube.get({ apiVersion: 'dataflow.dataflow.io/v1', kind: 'DataFlow', namespace, name: flowName })
    const processed = numberAt(flow, 'status', 'processedCount') ?? 0
    if (processed > 0) return { detail: `${flowName} has processed ${processed} rows; see: brokkr flows list`, value: undefined }
    if (Date.now() > endMs)
      return { detail: `${flowName} has processed no row yet: ${textAt(flow, 'status', 'message') ?? ''}`, value: undefined, skipped: true }
    await sleep(500, undefined, { signal })
  }
}
