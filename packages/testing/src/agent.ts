// A real agent as a process, between a real broker and a real API server. Settings by environment, as operators give them.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '@brokkr/local/supervisor/free-ports.ts'
import type { TestAgent, TestBroker } from './broker.ts'
import { logLine, type ProgramProcess, startProgram } from './program.ts'
import { callServers } from './servers/owner/client.ts'

export type AgentProcess = ProgramProcess & {
  readonly healthUrl: string
  /** Where it reads its key. */
  readonly pakFile: string
  /** The same agent again after a kill: same key, same cluster, another process. */
  again(): Promise<AgentProcess>
}

export async function startTestAgent(options: {
  broker: TestBroker | string
  agent: TestAgent
  kubeconfigPath: string
  namespace?: string
  env?: Record<string, string>
  /** The line of its log that is waited for. */
  until?: string
  /** Another file than its source, and how Node runs it. */
  program?: { readonly main: string; readonly nodeFlags: readonly string[] }
}): Promise<AgentProcess> {
  const folder = await callServers('loan.folder', { kind: 'plain' })
  const pakFile = join(folder, 'agent.pak')
  await writeFile(pakFile, options.agent.pak, { mode: 0o600 })
  const port = await freePort()
  const env = {
    BROKKR__AGENT__BROKER_URL: typeof options.broker === 'string' ? options.broker : options.broker.url,
    BROKKR__AGENT__AGENT_NAME: options.agent.agent.name,
    BROKKR__AGENT__CLUSTER_NAME: options.agent.agent.cluster_name,
    BROKKR__AGENT__PAK_FILE: pakFile,
    BROKKR__AGENT__KUBECONFIG_PATH: options.kubeconfigPath,
    BROKKR__AGENT__HEALTH_PORT: String(port),
    ...(options.namespace === undefined ? {} : { BROKKR__AGENT__NAMESPACE: options.namespace }),
    BROKKR__LOG__LEVEL: 'debug',
    // A killed agent's successor waits for the Lease to run out.
    BROKKR__AGENT__LEASE_SECONDS: '4',
    ...options.env,
  }
  return run({
    folder,
    env,
    pakFile,
    healthUrl: `http://127.0.0.1:${port}`,
    until: options.until ?? 'agent ready',
    program: options.program ?? fromSource,
  })
}

const fromSource = { main: 'packages/agent/src/main.ts', nodeFlags: [] as readonly string[] }

interface StartOptions {
  readonly folder: string
  readonly env: Record<string, string>
  readonly pakFile: string
  readonly healthUrl: string
  readonly until: string
  readonly program: { readonly main: string; readonly nodeFlags: readonly string[] }
}

async function run(given: StartOptions): Promise<AgentProcess> {
  const program = await startProgram({ name: 'agent', ...given.program, env: given.env, folder: given.folder })
  await logLine(program, given.until)
  return Object.assign(program, { healthUrl: given.healthUrl, pakFile: given.pakFile, again: () => run(given) })
}
