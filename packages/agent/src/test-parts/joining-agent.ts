// An agent as a process that has no key but a join token in a file, as the Secret of its manifest would mount it.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '@brokkr/local/supervisor/free-ports.ts'
import { type ProgramProcess, startProgram } from '@brokkr/testing/program.ts'
import { callServers } from '@brokkr/testing/servers/owner/client.ts'

export interface JoiningAgent {
  readonly healthUrl: string
  /** One process of it; does not wait until it is ready. */
  start(): Promise<ProgramProcess>
  /** Puts another token into the file. */
  giveToken(token: string): Promise<void>
}

export async function joiningAgent(given: {
  readonly brokerUrl: string
  readonly token: string
  readonly name: string
  readonly kubeconfigPath: string
  readonly namespace: string
  readonly env?: Record<string, string>
}): Promise<JoiningAgent> {
  const folder = await callServers('loan.folder', { kind: 'plain' })
  const tokenFile = join(folder, 'token')
  const giveToken = (token: string) => writeFile(tokenFile, token, { mode: 0o600 })
  await giveToken(given.token)
  const port = await freePort()
  const env = {
    BROKKR__AGENT__BROKER_URL: given.brokerUrl,
    BROKKR__AGENT__AGENT_NAME: given.name,
    BROKKR__AGENT__CLUSTER_NAME: given.name,
    BROKKR__AGENT__JOIN_TOKEN_FILE: tokenFile,
    BROKKR__AGENT__KUBECONFIG_PATH: given.kubeconfigPath,
    BROKKR__AGENT__NAMESPACE: given.namespace,
    BROKKR__AGENT__HEALTH_PORT: String(port),
    BROKKR__LOG__LEVEL: 'trace',
    // A killed agent's successor waits for the Lease to run out.
    BROKKR__AGENT__LEASE_SECONDS: '2',
    ...given.env,
  }
  return {
    healthUrl: `http://127.0.0.1:${port}`,
    giveToken,
    start: () => startProgram({ name: 'agent', main: 'packages/agent/src/main.ts', env, folder }),
  }
}
