// A program that checks its start as every program does, then says that it has started.
import { checkStart } from '../start-checks.ts'

checkStart()
process.stdout.write('started\n')
