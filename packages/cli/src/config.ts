// Environment variables of the command line. Flags override them; they override the context that `brokkr up` saved.
import { readEnvironment } from '@brokkr/runtime/config/environment-settings.ts'
import { optional } from '@brokkr/runtime/config/settings.ts'
import { z } from 'zod'

const text = z.string()

export const cliTable = {
  BROKKR_BROKER_URL: optional(text, { description: 'Address of the broker, such as https://brokkr.example.com. Overridden by --broker.' }),
  BROKKR_CONTEXT: optional(text, { description: 'Name of the saved context to use instead of the current one.' }),
  BROKKR_PAK_FILE: optional(text, { description: 'Path of the file that holds the PAK. Overridden by --pak-file.' }),
  XDG_CONFIG_HOME: optional(text, {
    description: 'Directory in which `brokkr up` saves the context as brokkr/context.json; without it, ~/.config.',
  }),
  DATABASE_URL: optional(text, {
    description: 'PostgreSQL that `brokkr up` uses instead of starting its own. Overridden by --database-url.',
  }),
  KUBECONFIG: optional(text, {
    description: 'Kubeconfig of the cluster of `brokkr flows` and `brokkr pipeline hold`. Overridden by --kubeconfig.',
  }),
  PROCESSOR_ALLOW_LOOPBACK: optional(z.boolean(), {
    description: 'Allows `brokkr flows preview` to connect to loopback addresses. Overridden by --allow-loopback.',
  }),
  BROKKR_PROGRAMS: optional(text, { description: 'JSON file with the start commands of built programs; `npm start` sets it.' }),
}

export const readCliEnvironment = (env: NodeJS.ProcessEnv) => readEnvironment(cliTable, env)
